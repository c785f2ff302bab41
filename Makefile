# The two commands that a fresh clone needs are `make demo` and `make test`; the scripts behind all
# of these are in build-aux/.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help demo test test-c test-python fuzz bench bench-smoke format lint clean

help: ## what can be made (this list)
	@sed -n 's/^\([a-z-]*\): .*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

demo: ## build, then move real arrays across the bridge and convert a real model
	@build-aux/demo

test: ## everything: C and Python, plain and under sanitizers
	@build-aux/test

test-c: ## the C tests alone, plain and under sanitizers
	@build-aux/test c
	@build-aux/test c-sanitize

test-python: ## the Python tests alone
	@build-aux/test python

fuzz: ## run each fuzz target for FUZZ_SECONDS (20)
	@build-aux/fuzz

bench: ## compare with other libraries; writes docs/performance.md
	@build-aux/bench

bench-smoke: ## run each comparison once, with little data
	@build-aux/bench --smoke

format: ## bring C and Python files into the house style
	@build-aux/format

lint: ## style, warnings, exported symbols, headers, file lists
	@build-aux/lint

clean: ## remove all that was built, .venv included
	rm -rf build dist .venv .pytest_cache .ruff_cache .hypothesis
	find python tests examples fuzz bench -name __pycache__ -type d -prune -exec rm -rf {} +
