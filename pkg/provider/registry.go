package provider

import (
	"fmt"
	"slices"
	"strings"
)

// Registry holds the drivers a program knows. The zero value is empty and
// ready. Registering is not safe for concurrent use; looking up is.
type Registry struct {
	drivers []Driver // in order of name
	byWord  map[string]Driver
}

// NewRegistry returns a registry of the given drivers.
func NewRegistry(drivers ...Driver) *Registry {
	r := new(Registry)
	for _, d := range drivers {
		r.Register(d)
	}
	return r
}

// Register adds a driver under its name and its aliases. It panics if one of
// these words is taken or can't stand before the colon of a target, since that
// is a defect of the program.
func (r *Registry) Register(d Driver) {
	if r.byWord == nil {
		r.byWord = make(map[string]Driver)
	}
	for _, word := range append([]string{d.Name()}, d.Aliases()...) {
		if len(word) < 2 || strings.ContainsAny(word, `:/\`) {
			panic(fmt.Sprintf("register driver %q: unusable word %q", d.Name(), word))
		}
		if other, taken := r.byWord[word]; taken {
			panic(fmt.Sprintf("register driver %q: word %q is taken by %q", d.Name(), word, other.Name()))
		}
		r.byWord[word] = d
	}
	at, _ := slices.BinarySearchFunc(r.drivers, d.Name(), func(d Driver, name string) int {
		return strings.Compare(d.Name(), name)
	})
	r.drivers = slices.Insert(r.drivers, at, d)
}

// Drivers returns all drivers in order of name.
func (r *Registry) Drivers() []Driver { return slices.Clone(r.drivers) }

// Has says whether word is a driver's name or alias.
func (r *Registry) Has(word string) bool { return r.byWord[word] != nil }

// Lookup returns the driver with this name or alias. An unknown one is an
// error of kind [Usage] with a suggestion.
func (r *Registry) Lookup(word string) (Driver, error) {
	if d := r.byWord[word]; d != nil {
		return d, nil
	}
	return nil, &Error{
		Kind: Usage,
		Err:  fmt.Errorf("unknown provider %q", word),
		Hint: didYouMean(word, r.words()) + "run \"sbsync providers\" for the list",
	}
}

// Parse is [ParseTarget] with the drivers of r. Unlike that one it can also
// suggest providers, and it checks that the target has a reference where its
// driver wants one, and none where not.
func (r *Registry) Parse(s, goos string, named map[string]Named) (Target, Driver, error) {
	t, err := grammar{isProvider: r.Has, form: r.form, words: r.words()}.parse(s, goos, named)
	if err != nil {
		return Target{}, nil, err
	}
	d, err := r.Lookup(t.Provider)
	if err != nil {
		return Target{}, nil, err
	}
	switch {
	case d.HasRef() && t.Ref == "":
		return Target{}, nil, targetError(s, "it names no sandbox",
			fmt.Sprintf("write %s:NAME:%s", t.Provider, t.Path))
	case !d.HasRef() && t.Ref != "":
		return Target{}, nil, targetError(s, fmt.Sprintf("%s takes no sandbox name, but has %q", t.Provider, t.Ref),
			fmt.Sprintf("write %s:%s", t.Provider, t.Path))
	}
	return t, d, nil
}

// form is a right target of the provider.
func (r *Registry) form(provider, ref string) string {
	if !r.byWord[provider].HasRef() {
		return provider + ":/absolute/path"
	}
	return provider + ":" + ref + ":/absolute/path"
}

func (r *Registry) words() []string {
	words := make([]string, 0, len(r.byWord))
	for word := range r.byWord {
		words = append(words, word)
	}
	slices.Sort(words)
	return words
}

func didYouMean(word string, from []string) string {
	if s := Suggest(word, from); s != "" {
		return fmt.Sprintf("did you mean %q? ", s)
	}
	return ""
}
