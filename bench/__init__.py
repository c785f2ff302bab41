"""Comparisons with other libraries, run by build-aux/bench: a file for each group of rows."""
