package confine

// openNonblock is nothing on Windows: its named pipes are not files of a tree.
const openNonblock = 0
