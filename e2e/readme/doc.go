// Package readme tests what the documents tell a reader to type: each command is run, or
// its files and targets are looked for, and what they show as output of the lab is what
// the lab prints.
package readme
