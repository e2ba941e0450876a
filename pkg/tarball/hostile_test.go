package tarball

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sbsync/sbsync/pkg/provider"
)

// raw is a header block with whatever is asked for in it, and a valid checksum.
func raw(flag byte, name string, size int64, change ...func(b []byte)) []byte {
	b := make([]byte, blockSize)
	copy(b[offName:offName+lenName], name)
	fillHeader(b, flag, 0o644, size, 0)
	for _, f := range change {
		f(b)
	}
	putChecksum(b)
	return b
}

func link(target string) func(b []byte) {
	return func(b []byte) { copy(b[offLink:offLink+lenLink], target) }
}

func field(offset int, value string) func(b []byte) {
	return func(b []byte) { copy(b[offset:], value) }
}

// record is a record member with its content.
func record(flag byte, content string) []byte {
	return append(raw(flag, "record", int64(len(content))), padded(content)...)
}

func padded(content string) []byte {
	return append([]byte(content), make([]byte, padding(int64(len(content))))...)
}

func paxText(pairs ...string) string {
	var b []byte
	for i := 0; i < len(pairs); i += 2 {
		b = appendPAX(b, pairs[i], []byte(pairs[i+1]))
	}
	return string(b)
}

func concat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

var (
	endBlocks = make([]byte, endSize)
	plain     = raw('0', "plain", 0)
)

// checkKind checks that err is a FormatError of one kind alone.
func checkKind(t *testing.T, what string, err, kind error) {
	t.Helper()
	var fault *FormatError
	if !errors.As(err, &fault) {
		t.Errorf("%s: got %v, want a FormatError", what, err)
		return
	}
	for _, k := range []error{ErrHostile, ErrCorrupt, ErrLimit, io.ErrUnexpectedEOF} {
		if errors.Is(err, k) != (k == kind) {
			t.Errorf("%s: got %v, want the kind %q", what, err, kind)
		}
	}
}

func TestRefused(t *testing.T) {
	v7 := field(offMagic, strings.Repeat("\x00", 8))
	tests := map[string]struct {
		archive []byte
		kind    error
	}{
		// Names (B13, B15, B22).
		"parent":              {raw('0', "../../x", 0), ErrHostile},
		"parent inside":       {raw('0', "a/../../x", 0), ErrHostile},
		"parent at the end":   {raw('5', "a/..", 0), ErrHostile},
		"parent after dot":    {raw('0', "./../x", 0), ErrHostile},
		"absolute":            {raw('0', "/abs/x", 0), ErrHostile},
		"absolute after dot":  {raw('0', ".//abs", 0), ErrHostile},
		"absolute prefix":     {raw('0', "x", 0, field(offPrefix, "/abs")), ErrHostile},
		"parent in prefix":    {raw('0', "x", 0, field(offPrefix, "a/..")), ErrHostile},
		"empty element":       {raw('0', "a//b", 0), ErrHostile},
		"dot element":         {raw('0', "a/./b", 0), ErrHostile},
		"two dots":            {raw('0', "././a", 0), ErrHostile},
		"root":                {raw('5', "./", 0), ErrHostile},
		"root without slash":  {raw('5', ".", 0), ErrHostile},
		"two slashes":         {raw('5', "d//", 0), ErrHostile},
		"link with slash":     {raw('2', "d/", 0, link("x")), ErrHostile},
		"file with slash":     {raw('0', "d/", 0), ErrHostile},
		"no name":             {raw('0', "", 0), ErrCorrupt},
		"no name at all":      {raw('0', "", 0, field(offPrefix, "")), ErrCorrupt},
		"long name, parent":   {concat(record('L', "../x\x00"), plain), ErrHostile},
		"long name, absolute": {concat(record('L', "/x\x00"), plain), ErrHostile},
		"PAX path, parent":    {concat(record('x', paxText("path", "../x")), plain), ErrHostile},
		"element of 256":      {concat(record('L', strings.Repeat("n", 256)), plain), ErrHostile},
		// Links.
		"hard link, parent":   {raw('1', "h", 0, link("../x")), ErrHostile},
		"hard link, absolute": {raw('1', "h", 0, link("/etc/passwd")), ErrHostile},
		"hard link, nothing":  {raw('1', "h", 0), ErrHostile},
		"hard link, long":     {concat(record('K', "../x\x00"), raw('1', "h", 0, link("x"))), ErrHostile},
		"hard link, PAX":      {concat(record('x', paxText("linkpath", "/x")), raw('1', "h", 0, link("x"))), ErrHostile},
		"symlink to nothing":  {raw('2', "s", 0), ErrHostile},
		// Types.
		"character device": {raw('3', "x", 0), ErrHostile},
		"block device":     {raw('4', "x", 0), ErrHostile},
		"FIFO":             {raw('6', "x", 0), ErrHostile},
		"contiguous":       {raw('7', "x", 0), ErrHostile},
		"GNU sparse":       {raw('S', "x", 0), ErrHostile},
		"GNU dump":         {raw('D', "x", 0), ErrHostile},
		"GNU continuation": {raw('M', "x", 0), ErrHostile},
		"GNU label":        {raw('V', "x", 0), ErrHostile},
		"Solaris":          {raw('X', "x", 0), ErrHostile},
		"unknown":          {raw('\xff', "x", 0), ErrHostile},
		"star":             {raw('0', "x", 0, field(offStar, "tar\x00")), ErrCorrupt},
		"PAX sparse 0":     {concat(record('x', paxText("GNU.sparse.size", "1")), plain), ErrHostile},
		"PAX sparse 1":     {concat(record('x', paxText("GNU.sparse.major", "1")), plain), ErrHostile},
		"global sparse":    {concat(record('g', paxText("GNU.sparse.major", "1")), plain), ErrHostile},
		// Sizes.
		"negative":           {raw('0', "x", -1), ErrHostile},
		"most negative":      {raw('0', "x", -1<<63), ErrHostile},
		"overflows padding":  {raw('0', "x", 1<<63-1), ErrHostile},
		"more than 64 bits":  {raw('0', "x", 0, field(offSize, "\x80\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")), ErrCorrupt},
		"negative octal":     {raw('0', "x", 0, field(offSize, "-0000000001\x00")), ErrCorrupt},
		"not octal":          {raw('0', "x", 0, field(offSize, "00000000009\x00")), ErrCorrupt},
		"two numbers":        {raw('0', "x", 0, field(offSize, "0000 000001\x00")), ErrCorrupt},
		"PAX size negative":  {concat(record('x', paxText("size", "-1")), plain), ErrHostile},
		"PAX size overflows": {concat(record('x', paxText("size", "9223372036854775807")), plain), ErrHostile},
		"PAX size 65 bits":   {concat(record('x', paxText("size", "18446744073709551616")), plain), ErrHostile},
		"PAX size signed":    {concat(record('x', paxText("size", "+1")), plain), ErrHostile},
		"PAX size in hex":    {concat(record('x', paxText("size", "0x1")), plain), ErrHostile},
		"directory with":     {concat(raw('5', "d", 1), padded("x")), ErrHostile},
		"hard link with":     {concat(raw('1', "h", 1, link("x")), padded("x")), ErrHostile},
		"symlink with":       {concat(raw('2', "s", 1, link("x")), padded("x")), ErrHostile},
		"PAX directory with": {concat(record('x', paxText("size", "1")), raw('5', "d", 0), padded("x")), ErrHostile},
		"v7 directory with":  {concat(raw(0, "d/", 1, v7), padded("x")), ErrHostile},
		// Records.
		"NUL in PAX path":      {concat(record('x', paxText("path", "a\x00b")), plain), ErrHostile},
		"NUL in PAX link":      {concat(record('x', paxText("linkpath", "a\x00b")), plain), ErrHostile},
		"NUL in long name":     {concat(record('L', "a\x00b\x00"), plain), ErrHostile},
		"empty long name":      {concat(record('L', "\x00"), plain), ErrHostile},
		"two long names":       {concat(record('L', "a\x00"), record('L', "b\x00"), plain), ErrHostile},
		"two long links":       {concat(record('K', "a\x00"), record('K', "b\x00"), plain), ErrHostile},
		"two PAX headers":      {concat(record('x', paxText("path", "a")), record('x', ""), plain), ErrHostile},
		"names disagree":       {concat(record('L', "a\x00"), record('x', paxText("path", "b")), plain), ErrHostile},
		"links disagree":       {concat(record('x', paxText("linkpath", "b")), record('K', "a\x00"), raw('2', "s", 0)), ErrHostile},
		"global path":          {concat(record('g', paxText("path", "a")), plain), ErrHostile},
		"global link":          {concat(record('g', paxText("linkpath", "a")), plain), ErrHostile},
		"global size":          {concat(record('g', paxText("size", "1")), plain), ErrHostile},
		"record of 1 MiB":      {record('x', strings.Repeat("x", 1<<20)), ErrHostile},
		"record of 1 EiB":      {raw('x', "x", 1<<60), ErrHostile},
		"endless records":      {bytes.Repeat(record('g', ""), 1<<20/blockSize+1), ErrHostile},
		"PAX length too large": {concat(record('x', "99 path=a\n"), plain), ErrCorrupt},
		"PAX length too small": {concat(record('x', "5 path=a\n"), plain), ErrCorrupt},
		"PAX length 0":         {concat(record('x', "0 path=a\n"), plain), ErrCorrupt},
		"PAX length negative":  {concat(record('x', "-10 path=a\n"), plain), ErrCorrupt},
		"PAX length overflows": {concat(record('x', "99999999999999999999 path=a\n"), plain), ErrCorrupt},
		"PAX without length":   {concat(record('x', "path=a\n"), plain), ErrCorrupt},
		"PAX without =":        {concat(record('x', "8 patha\n"), plain), ErrCorrupt},
		"PAX without key":      {concat(record('x', "5 =a\n"), plain), ErrCorrupt},
		"PAX without newline":  {concat(record('x', "9 path=ab"), plain), ErrCorrupt},
		"PAX time":             {concat(record('x', paxText("mtime", "soon")), plain), ErrHostile},
		"record, then nothing": {record('L', "a\x00"), ErrCorrupt},
		// Damage.
		"checksum":          {append(bytes.Clone(plain[:1]), append([]byte("X"), plain[2:]...)...), ErrCorrupt},
		"text":              {[]byte(strings.Repeat("Error from server\n", 100)), ErrCorrupt},
		"malformed mode":    {raw('0', "x", 0, field(offMode, "rw-r--r-")), ErrCorrupt},
		"malformed time":    {raw('0', "x", 0, field(offTime, "yesterday")), ErrCorrupt},
		"one zero block":    {concat(plain, endBlocks[:blockSize], plain), ErrCorrupt},
		"a second archive":  {concat(plain, endBlocks, plain), ErrCorrupt},
		"data at the end":   {concat(plain, endBlocks, []byte("x")), ErrCorrupt},
		"off by some bytes": {concat(plain, endBlocks[:100], plain), ErrCorrupt},
		"endless zeros":     {concat(plain, make([]byte, maxZeros+1)), ErrHostile},
	}
	for name, test := range tests {
		_, err := readAll(NewReader(bytes.NewReader(concat(test.archive, endBlocks)), ReaderOptions{}))
		checkKind(t, name, err, test.kind)
	}
}

func TestAccepted(t *testing.T) {
	gnu, v7 := field(offMagic, "ustar  \x00"), field(offMagic, strings.Repeat("\x00", 8))
	tests := map[string]struct {
		archive []byte
		name    string
		typ     Type
		link    string
	}{
		"dot before":         {raw('0', "./a/b", 0), "a/b", RegularFile, ""},
		"slash after":        {raw('5', "./d/", 0), "d", Directory, ""},
		"dash":               {raw('0', "./-rf", 0), "-rf", RegularFile, ""},
		"dots":               {raw('0', "..a/...", 0), "..a/...", RegularFile, ""},
		"prefix":             {raw('0', "b", 0, field(offPrefix, "a")), "a/b", RegularFile, ""},
		"no prefix in GNU":   {raw('0', "b", 0, field(offPrefix, "00000000000"), gnu), "b", RegularFile, ""},
		"no prefix in v7":    {raw('0', "b", 0, field(offPrefix, "a"), v7), "b", RegularFile, ""},
		"v7 file":            {raw(0, "f", 0, v7), "f", RegularFile, ""},
		"v7 directory":       {raw(0, "d/", 0, v7), "d", Directory, ""},
		"v7 link":            {raw('1', "h", 0, v7, link("./f")), "h", HardLink, "f"},
		"symlink verbatim":   {raw('2', "s", 0, link("./..//x/")), "s", SymbolicLink, "./..//x/"},
		"link of a file":     {raw('0', "f", 0, link("x")), "f", RegularFile, ""},
		"name of 100":        {raw('0', strings.Repeat("n", 100), 0), strings.Repeat("n", 100), RegularFile, ""},
		"long name":          {concat(record('L', "./a/b\x00"), plain), "a/b", RegularFile, ""},
		"long directory":     {concat(record('L', "./a/b/\x00"), raw('5', "x", 0)), "a/b", Directory, ""},
		"long, no NUL":       {concat(record('L', "a"), plain), "a", RegularFile, ""},
		"long link":          {concat(record('K', "t/\x00"), raw('2', "s", 0, link("x"))), "s", SymbolicLink, "t/"},
		"PAX path":           {concat(record('x', paxText("path", "\xff")), plain), "\xff", RegularFile, ""},
		"PAX path, last":     {concat(record('x', paxText("path", "a", "path", "b")), plain), "b", RegularFile, ""},
		"PAX path, empty":    {concat(record('x', paxText("path", "")), plain), "plain", RegularFile, ""},
		"PAX over prefix":    {concat(record('x', paxText("path", "a")), raw('0', "b", 0, field(offPrefix, "../x"))), "a", RegularFile, ""},
		"both agree":         {concat(record('L', "a\x00"), record('x', paxText("path", "a")), plain), "a", RegularFile, ""},
		"unknown keys":       {concat(record('x', paxText("SCHILY.xattr.user.x", "\x00", "comment", "=")), plain), "plain", RegularFile, ""},
		"global comment":     {concat(record('g', paxText("comment", "commit")), plain), "plain", RegularFile, ""},
		"odd owners":         {raw('0', "f", 0, field(offUID, "garbage!")), "f", RegularFile, ""},
		"spaces in numbers":  {raw('0', "f", 0, field(offMode, "   644 \x00"), field(offSize, "          0 ")), "f", RegularFile, ""},
		"empty numbers":      {raw('0', "f", 0, field(offTime, strings.Repeat("\x00", lenTime))), "f", RegularFile, ""},
		"padding at the end": {concat(plain, endBlocks, make([]byte, 8192)), "plain", RegularFile, ""},
	}
	for what, test := range tests {
		got, err := readAll(NewReader(bytes.NewReader(concat(test.archive, endBlocks)), ReaderOptions{}))
		if err != nil || len(got) != 1 {
			t.Errorf("%s: %v, %v", what, got, err)
			continue
		}
		if g := got[0]; g.Name != test.name || g.Type != test.typ || g.Link != test.link {
			t.Errorf("%s: got %+v", what, g.Header)
		}
	}
}

func TestSignedChecksumIsAccepted(t *testing.T) {
	b := raw('0', "\xff\xfe\x80", 0)
	_, signed := checksums(b)
	putOctal(b[offChecksum:offChecksum+7], signed)
	if _, err := readAll(NewReader(bytes.NewReader(concat(b, endBlocks)), ReaderOptions{})); err != nil {
		t.Error(err)
	}
}

func TestPAXSizeCounts(t *testing.T) {
	data := concat(record('x', paxText("size", "3", "mtime", "-1.25")), raw('0', "x", 999), padded("abc"), plain, endBlocks)
	got, err := readAll(NewReader(bytes.NewReader(data), ReaderOptions{}))
	if err != nil || len(got) != 2 || got[0].content != "abc" || got[0].Time.Sec != -2 || got[0].Time.Nsec != 75e7 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestLimits(t *testing.T) {
	data := archive(t, file("a", "12345"), file("b", "123"), file("dir/long", ""))
	tests := []struct {
		opt ReaderOptions
		ok  bool
	}{
		{ReaderOptions{}, true},
		{ReaderOptions{MaxMembers: 3, MaxTotal: 8, MaxFile: 5, MaxPath: 8}, true},
		{ReaderOptions{MaxMembers: 2}, false},
		{ReaderOptions{MaxTotal: 7}, false},
		{ReaderOptions{MaxFile: 4}, false},
		{ReaderOptions{MaxPath: 7}, false},
	}
	for _, test := range tests {
		_, err := readAll(NewReader(bytes.NewReader(data), test.opt))
		if test.ok && err != nil {
			t.Errorf("%+v: %v", test.opt, err)
		}
		if !test.ok {
			checkKind(t, fmt.Sprintf("%+v", test.opt), err, ErrLimit)
		}
	}
	long := archive(t, member{Header{Name: "s", Type: SymbolicLink, Link: strings.Repeat("x", DefaultMaxPath+1)}, ""})
	_, err := readAll(NewReader(bytes.NewReader(long), ReaderOptions{}))
	checkKind(t, "long link", err, ErrLimit)
}

// A file that is too large is refused before a byte of it is read.
func TestLimitsComeBeforeContent(t *testing.T) {
	_, err := NewReader(bytes.NewReader(raw('0', "x", 1<<40)), ReaderOptions{MaxFile: 1 << 30}).Next()
	checkKind(t, "1 TiB", err, ErrLimit)
}

func TestErrorsNameThePlace(t *testing.T) {
	data := concat(raw('0', "a", 3), padded("abc"), raw('0', "b/../../x", 0), endBlocks)
	_, err := readAll(NewReader(bytes.NewReader(data), ReaderOptions{}))
	var fault *FormatError
	if !errors.As(err, &fault) || fault.Offset != 1024 || fault.Name != "b/../../x" {
		t.Errorf("got %#v", err)
	}
	if provider.KindOf(err) != provider.Confined {
		t.Errorf("kind %v, want %v", provider.KindOf(err), provider.Confined)
	}
	if !strings.HasPrefix(err.Error(), `read archive: member "b/../../x" at offset 1024: refused: `) {
		t.Errorf("text %q", err)
	}
}

func TestOffsetsCountLargeReads(t *testing.T) {
	const size = 3 * readBuffer
	data := concat(raw('0', "a", size), make([]byte, size), raw('6', "fifo", 0))
	r := NewReader(bytes.NewReader(data), ReaderOptions{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	_, err := r.Next()
	var fault *FormatError
	if !errors.As(err, &fault) || fault.Offset != blockSize+size {
		t.Errorf("got %v, want offset %d", err, blockSize+size)
	}
}

func TestErrorsStay(t *testing.T) {
	r := NewReader(bytes.NewReader(concat(raw('6', "fifo", 0), plain, endBlocks)), ReaderOptions{})
	_, first := r.Next()
	checkKind(t, "first", first, ErrHostile)
	if _, err := r.Next(); err != first {
		t.Errorf("got %v, want %v", err, first)
	}
	if _, err := r.Read(make([]byte, 1)); err != first {
		t.Errorf("Read: got %v, want %v", err, first)
	}
	if _, err := r.WriteTo(io.Discard); err != first {
		t.Errorf("WriteTo: got %v, want %v", err, first)
	}
}
