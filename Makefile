# The two commands that a stranger needs are `make run` and `make test`. Each does all its own set-up;
# the work is in .ci/, one script per job.

.DEFAULT_GOAL := help
.PHONY: help app bundle demo run test lint tidy setup models python semver refit

help:
	@echo "make run     the desktop app; without a display or Node the demonstration in the terminal"
	@echo "make demo    build, fetch the default model, index assets/sample-library, ask three questions"
	@echo "make bundle  the .deb and the .rpm of the app"
	@echo "make test    build, all tests, doc tests, format, clippy, tidy"
	@echo "make lint    format check, clippy with warnings as errors, tidy"
	@echo "make tidy    the repository's own rules alone"
	@echo "make python  the Python package and its tests, in .venv/package"
	@echo "make semver  the crates that others may build on: packages, and public names against the version"
	@echo "make models  fetch what the tests of real models need"
	@echo "make refit   fit again what was fitted to the bundled reranker (training/README.md)"
	@echo "make setup   compiler and Debian packages, if any are missing"

run:
	@bash .ci/app || { [ $$? -eq 3 ] && bash .ci/demo; }

app:
	@bash .ci/app

demo:
	@bash .ci/demo

bundle:
	@bash .ci/bundle

test:
	@bash .ci/test

lint: setup
	@bash -c '. .ci/common && . .ci/features && { [ -z "$$app" ] || bash .ci/ui; } && cargo xtask lint "$${features[@]}"'

tidy: setup
	@bash -c '. .ci/common && cargo xtask tidy'

python: setup
	@bash .ci/python

semver: setup
	@bash .ci/semver

refit:
	@PYTHONPATH=training $${RIDDLE_PYTHON:-python3} -m riddle_training.refit $(REFIT)

models: setup
	@bash .ci/models

setup:
	@bash .ci/setup
