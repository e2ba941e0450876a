// Package script runs POSIX shell scripts in a sandbox and reads their replies.
//
// It makes up for what exec transports lose. A reply is framed by lines with a
// random word in them, so that a reply that was cut short, an exit event that
// was lost and standard error mixed into standard output are all noticed. What
// a script reads and writes is text where the transport needs text.
package script
