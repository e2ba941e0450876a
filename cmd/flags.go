package cmd

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sbsync/sbsync/pkg/transfer"
)

// outputFlags are the flags that every command has.
type outputFlags struct {
	json, quiet, verbose, noProgress bool
	configFile                       string
}

func (f *outputFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.json, "json", false, "print JSON on stdout, one object a line")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "print errors only")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print decisions, retries and provider calls")
	fs.BoolVar(&f.noProgress, "no-progress", false, "draw no progress bar")
	fs.StringVar(&f.configFile, "config", "", "read this config file and no other")
}

// transferFlags are the flags of push, pull and diff. Most are fields of opt
// themselves.
type transferFlags struct {
	opt             transfer.Options
	delete, replace bool // settled by settings.policy
	mode            modeValue
	total, file     sizeValue
	chunk           sizeValue
	opsFile         string
	start           bool
}

func newTransferFlags() *transferFlags {
	f := &transferFlags{opt: transfer.NewOptions()}
	f.total, f.file = sizeValue(f.opt.Limits.Total), sizeValue(f.opt.Limits.File)
	return f
}

func (f *transferFlags) register(fs *pflag.FlagSet) {
	o := &f.opt
	fs.StringArrayVar(&o.Exclude, "exclude", nil, "leave out what matches `PATTERN` (gitignore syntax; repeatable)")
	fs.BoolVar(&o.Gitignore, "gitignore", false, "leave out what git ignores")
	fs.BoolVar(&o.NoIgnore, "no-ignore", false, "do not read .sbsyncignore files")
	fs.BoolVar(&f.delete, "delete", false, "delete what the source does not have, but for what is excluded")
	fs.IntVar(&o.MaxDelete, "max-delete", o.MaxDelete, "with --delete: refuse to delete more than `N` entries (-1: no limit)")
	fs.BoolVar(&o.DeleteExcluded, "delete-excluded", false, "with --delete: delete excluded entries, too")
	fs.BoolVar(&f.replace, "replace", false, "build the tree anew and swap it with the old one")
	fs.BoolVar(&o.Force, "force", false, "let files replace directories and the reverse; pass the deletion guards")
	fs.BoolVar(&o.Checksum, "checksum", false, "compare by content instead of size and time")
	fs.BoolVar(&o.Verify, "verify", false, "compare digests after the transfer, before anything is replaced")
	fs.BoolVarP(&o.DryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	fs.Var(choiceValue[transfer.Symlinks]{&o.Symlinks, []transfer.Symlinks{transfer.Preserve, transfer.Follow, transfer.Skip, transfer.Reject}},
		"symlinks", "what becomes of symbolic links: preserve, follow, skip or reject")
	fs.BoolVar(&o.AllowExternalSymlinks, "allow-external-symlinks", false, "let links lead out of the tree")
	fs.BoolVar(&o.SetID, "set-id", false, "keep set-uid, set-gid and sticky bits")
	fs.Var(&f.mode, "mode", "give every file that is sent this octal mode")
	registerRoute(fs, &o.Route)
	fs.StringArrayVar(&o.SandboxRoots, "root", nil, "refuse paths outside of this sandbox `DIR` (repeatable)")
	fs.StringArrayVar(&o.HostRoots, "host-root", nil, "refuse paths outside of this `DIR` of this machine (repeatable)")
	fs.BoolVar(&f.start, "start", false, "start the sandbox first if it is stopped")
	registerPatience(fs, o)
	fs.IntVar(&o.Limits.Entries, "limit-entries", o.Limits.Entries, "refuse trees of more than `N` entries (0: no limit)")
	fs.Var(&f.total, "limit-total", "refuse transfers of more bytes (0: no limit)")
	fs.Var(&f.file, "limit-file", "refuse larger files (0: no limit)")
	fs.IntVar(&o.Limits.PathBytes, "limit-path", o.Limits.PathBytes, "refuse longer relative paths, in bytes (0: no limit)")
	fs.Var(&f.chunk, "chunk-size", "raw size of a chunk on the base64 route (0: as fits)")
}

func registerRoute(fs *pflag.FlagSet, route *transfer.Route) {
	fs.Var(choiceValue[transfer.Route]{route, append([]transfer.Route{transfer.Auto}, transfer.Routes[:]...)},
		"route", "how to carry: auto, sync, stream, bulk or base64")
}

func registerPatience(fs *pflag.FlagSet, o *transfer.Options) {
	fs.IntVar(&o.Retries, "retries", o.Retries, "try again so many times after temporary errors")
	fs.DurationVar(&o.IdleTimeout, "idle-timeout", o.IdleTimeout, "give up when nothing moves for so long")
}

func (f *transferFlags) registerOps(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.opsFile, "ops", "", "carry out the operations in `FILE` (JSON or YAML; - for stdin)")
}

// check refuses combinations that make no sense. fs tells what was typed, as
// opposed to configured.
func (f *transferFlags) check(fs *pflag.FlagSet) error {
	switch {
	case fs.Changed("delete-excluded") && f.opt.DeleteExcluded && f.opt.Policy != transfer.Mirror:
		return usageError("add --delete", "--delete-excluded deletes nothing without --delete")
	case f.opt.Limits.Entries < 0:
		return usageError("0 means no limit", "--limit-entries %d is negative", f.opt.Limits.Entries)
	case f.opt.Limits.PathBytes < 0:
		return usageError("0 means no limit", "--limit-path %d is negative", f.opt.Limits.PathBytes)
	}
	return checkPatience(f.opt)
}

func checkPatience(o transfer.Options) error {
	switch {
	case o.Retries < 0:
		return usageError("0 means one attempt", "--retries %d is negative", o.Retries)
	case o.IdleTimeout < 0:
		return usageError("write a duration like 90s or 5m", "--idle-timeout %s is negative", o.IdleTimeout)
	}
	return nil
}

// options are the Options after parsing and configuration.
func (f *transferFlags) options() transfer.Options {
	opt := f.opt
	opt.Mode = f.mode.bits
	opt.Limits.Total, opt.Limits.File, opt.ChunkBytes = int64(f.total), int64(f.file), int64(f.chunk)
	return opt
}
