// Package randtree makes random file trees and says how two trees differ. It
// shares no code with what it is to test.
package randtree
