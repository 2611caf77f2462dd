# The two commands that a stranger needs are `make run` and `make test`. Each does all its own set-up;
# the work is in .ci/, one script per job.

.DEFAULT_GOAL := help
.PHONY: help run test lint tidy setup models

help:
	@echo "make run     build, fetch the default model, index assets/sample-library, ask three questions"
	@echo "make test    build, all tests, doc tests, format, clippy, tidy"
	@echo "make lint    format check, clippy with warnings as errors, tidy"
	@echo "make tidy    the repository's own rules alone"
	@echo "make models  fetch what the tests of real models need"
	@echo "make setup   compiler and Debian packages, if any are missing"

run:
	@bash .ci/demo

test:
	@bash .ci/test

lint: setup
	@bash -c '. .ci/common && cargo xtask lint'

tidy: setup
	@bash -c '. .ci/common && cargo xtask tidy'

models: setup
	@bash .ci/models

setup:
	@bash .ci/setup
