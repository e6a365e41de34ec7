# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Everything runs in a copy of this repository inside the cache directory; nothing else is written.
MUSTER_CACHE ?= $(HOME)/.cache/muster-kube
MUSTER_REAL_HOME ?= $(HOME)
PYTHON ?= python3

override MUSTER_CACHE := $(abspath $(MUSTER_CACHE))
override MUSTER_REAL_HOME := $(MUSTER_REAL_HOME)
override PYTHON := $(shell $(PYTHON) -c 'import sys; print(sys.executable)')
comma := ,
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Where things live. Each checkout has a copy of its own; environments and built programs are shared.
CHECKOUT := $(shell printf '%s' '$(CURDIR)' | sha256sum | cut -c1-12)
ROOT := $(MUSTER_CACHE)/tree/$(CHECKOUT)
TREE := $(ROOT)/ansible_collections/muster/kube
SANITY_ROOT := $(MUSTER_CACHE)/tree/$(CHECKOUT)-sanity
SANITY_TREE := $(SANITY_ROOT)/ansible_collections/muster/kube
RUN := $(MUSTER_CACHE)/run/$(CHECKOUT)
INSTALLED := $(RUN)/installed
TARBALL := $(RUN)/dist/muster-kube-$(shell sed -n 's/^version: //p' galaxy.yml).tar.gz
VENVS := $(shell $(PYTHON) tests/tools/environments.py paths '$(MUSTER_CACHE)' tools importer core216 oldest)
ifneq ($(words $(VENVS)),4)
$(error No usable Python found; 3.11 or newer is needed: make PYTHON=/path/to/python3)
endif
VENV := $(word 1,$(VENVS))
IMPORTER := $(word 2,$(VENVS))
CORE216 := $(word 3,$(VENVS))
OLDEST := $(word 4,$(VENVS))
SITE = $(firstword $(wildcard $(VENV)/lib/python3*/site-packages))

# Size and seed of the random suites: a tenth and always the same in `make test`, whole and fresh in `make full`.
MUSTER_SCALE ?= 0.1
MUSTER_SEED ?= 1
TEST_SELECTION ?= integration and not full
TEST_PROFILES ?= test
# Seconds for one test; only a hang takes so long.
TEST_LIMIT ?= 600
# Clusters at once in integration tests. Most of the time a test waits for its cluster, so they may be more than processors.
WORKERS ?= 3
# Processes of the unit tests.
UNIT_WORKERS ?= 2
# What ansible-test looks at: what users get. In full runs it looks at the tests too.
SANITY_FILES ?= shipped

# Keep every tool inside the cache, and away from the user's own clusters and settings.
export PYTHON MUSTER_CACHE MUSTER_REAL_HOME MUSTER_SCALE MUSTER_SEED TEST_SELECTION TEST_LIMIT
export MUSTER_CHECKOUT := $(CURDIR)
export HOME := $(MUSTER_CACHE)/home
export TMPDIR := $(MUSTER_CACHE)/tmp
export XDG_CACHE_HOME := $(HOME)/.cache
export XDG_CONFIG_HOME := $(HOME)/.config
export XDG_DATA_HOME := $(HOME)/.local/share
export ANSIBLE_HOME := $(HOME)/.ansible
export ANSIBLE_LOCAL_TEMP := $(TMPDIR)/ansible-local
export ANSIBLE_REMOTE_TEMP := $(TMPDIR)/ansible-remote
export ANSIBLE_COLLECTIONS_PATH := $(ROOT)
export ANSIBLE_LOCALHOST_WARNING := False
export ANSIBLE_INVENTORY_UNPARSED_WARNING := False
export HYPOTHESIS_STORAGE_DIRECTORY := $(MUSTER_CACHE)/hypothesis
export MYPY_CACHE_DIR := $(MUSTER_CACHE)/mypy
export RUFF_CACHE_DIR := $(MUSTER_CACHE)/ruff
# Compiled once: each task and each test program would compile all it imports again, and no tree is written to.
export PYTHONPYCACHEPREFIX := $(MUSTER_CACHE)/pycache
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PATH := $(VENV)/bin:$(PATH)
unexport ANSIBLE_CONFIG KUBECONFIG PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE VIRTUAL_ENV
# Local clusters are never behind a proxy, whatever else is.
export NO_PROXY := $(if $(NO_PROXY),$(NO_PROXY),$(no_proxy))$(if $(NO_PROXY)$(no_proxy),$(comma))127.0.0.1,localhost
export no_proxy := $(NO_PROXY)
unexport K8S_AUTH_KUBECONFIG K8S_AUTH_CONTEXT K8S_AUTH_HOST K8S_AUTH_API_KEY

PYTEST = $(VENV)/bin/pytest --ansible-unit-inject-only -q --timeout=$(TEST_LIMIT)
# In full runs hypothesis is random too; its seed is the printed one.
HYPOTHESIS_OPTIONS = $(if $(filter 1,$(MUSTER_SCALE)),--hypothesis-seed=$(MUSTER_SEED))

##@ Try it
.PHONY: demo demo-elastic demo-inspect demo-clean cluster-up cluster-down
demo: ready go ## two Ray clusters on a local Kubernetes with room for one
	@cd $(RUN) && ansible-playbook muster.kube.demo

demo-elastic: ready go ## training jobs that share ten simulated GPUs, grow and give way
	@cd $(RUN) && ansible-playbook muster.kube.demo_elastic

demo-inspect: TEST_PROFILES := inspect
demo-inspect: packages ready go ## two software stacks built and compared on this machine (root)
	@cd $(RUN) && ansible-playbook muster.kube.demo_inspect

demo-clean: ready ## stop and remove the demos' clusters
	@cd $(RUN) && for name in demo demo-elastic demo-inspect; do \
		ansible-playbook muster.kube.local_cluster -e local_cluster_name=$$name -e local_cluster_state=absent; done

cluster-up: ready go ## start a local cluster called muster
	@cd $(RUN) && ansible-playbook muster.kube.local_cluster -e local_cluster_name=muster

cluster-down: ready ## stop and remove that cluster
	@cd $(RUN) && ansible-playbook muster.kube.local_cluster -e local_cluster_name=muster -e local_cluster_state=absent

##@ Test it
.PHONY: test full lint unit integration molecule sanity soak mutants bench
# The steps beside the integration tests, those that take longest first. Clusters that have to wait for the processor all the
# time do not come up or go in time, so steps with clusters of their own follow when the machine is theirs, two at once.
BESIDE := sanity unit-memory unit-pure smoke216 lint importer
AFTER := guide demo-tarball molecule readme
test: packages go trees install ## everything a change has to pass
	+@MAKE='$(MAKE)' MUSTER_PREPARED=1 $(PYTHON) tests/tools/steps.py $(RUN)/log \
		main integration beside $(BESIDE) after $(AFTER)

full: MUSTER_SCALE := 1
full: MUSTER_SEED := $(shell $(PYTHON) -c 'import random; print(random.randrange(1, 10**9))')
full: TEST_SELECTION := integration
full: TEST_PROFILES := test full
full: TEST_LIMIT := 7200
full: SANITY_FILES :=
full: export MUSTER_STEP_LIMIT := 86400
full: packages go trees install rulebook-venv ## the same at full size with a fresh seed, and all benches
	@echo 'Seed: $(MUSTER_SEED) (again with: make full MUSTER_SEED=$(MUSTER_SEED))'
	+@MAKE='$(MAKE)' MUSTER_PREPARED=1 $(PYTHON) tests/tools/steps.py $(RUN)/log \
		main integration beside $(BESIDE) after $(AFTER) alone bench

LINTS := ruff mypy layers limits reuse ansible shell docs changelog
lint: $(addprefix lint-,$(LINTS)) ## formatting, types, layers, licenses, Ansible's own linters

unit: ready ## tests that need no cluster
	@cd $(TREE) && $(PYTEST) -n $(UNIT_WORKERS) $(HYPOTHESIS_OPTIONS) tests/unit

# The same in two halves, so that none of two processors is idle when all else is done: whole dispatchers before a server
# in memory, and everything below them.
UNIT_MEMORY = $(patsubst $(TREE)/%,%,$(wildcard $(TREE)/tests/unit/test_*.py)) tests/unit/dispatch
unit-memory: ready
	@cd $(TREE) && $(PYTEST) $(HYPOTHESIS_OPTIONS) $(UNIT_MEMORY)

unit-pure: ready
	@cd $(TREE) && $(PYTEST) $(HYPOTHESIS_OPTIONS) tests/unit $(addprefix --ignore=,$(UNIT_MEMORY))

integration: ready go ## tests against local clusters, one for each worker
	@cd $(TREE) && MUSTER_DURATIONS=$(RUN)/durations.json $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=40 \
		-m '$(TEST_SELECTION)' $(HYPOTHESIS_OPTIONS) tests/integration

molecule: ready go ## the roles, twice in a row
	@cd $(TREE) && export NO_COLOR=1 PY_COLORS=0 ANSIBLE_FORCE_COLOR=0 \
		&& { molecule test 2>&1 | tee $(RUN)/molecule.log | grep -E '^default |local_cluster: '; } || { cat $(RUN)/molecule.log; false; }

sanity: ready sanity-tree ## ansible-test sanity
	@mkdir -p $(HOME)/.ansible/test/cache
	@for version in 23_1_2 24_2 25_2; do cp tests/tools/get_pip.py $(HOME)/.ansible/test/cache/get_pip_$$version.py; done
	@cd $(SANITY_TREE) && ansible-test sanity --color no --python $$(python -c 'import sys; print("%d.%d" % sys.version_info[:2])')

# For example: make soak SOAK='--rounds 2 tests/integration/test_lease.py'; it goes on where it was interrupted.
soak: ready go ## every integration test ten times while two builds run beside it (SOAK='--rounds 2 FILE')
	@$(VENV)/bin/python tests/tools/soak.py $(TREE) $(RUN)/soak --select '$(TEST_SELECTION)' \
		--pytest '$(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder' $(SOAK)

# For example: make mutants MUTANTS='--seed 7 --count 40 --paths plugins/module_utils/_policy'
mutants: ready ## change one token at a time and see whether unit tests notice (MUTANTS='--seed 7 --count 40')
	@nice $(VENV)/bin/python tests/tools/mutants.py $(TREE) $(RUN)/mutants $(MUTANTS)

# A bench prints the word MISSED beside each bar that was not kept.
bench: ready go ## measure; figures go to docs/benchmarks.md; a bar that is missed is a failure
	@shopt -s nullglob; for program in bench/*.py; do \
		echo "==> $$program"; (cd $(TREE) && PYTHONPATH=$(ROOT) python -u "$$program"); done | tee $(RUN)/bench.log
	@! grep -H MISSED $(RUN)/bench.log

##@ Document and tidy up
.PHONY: docs guides clean help
guides: venv ## draw the rooms, list the catalogue, and write the guides anew for the documentation site
	@$(VENV)/bin/python tests/tools/rooms.py . && $(VENV)/bin/python tests/tools/catalogue_page.py . \
		&& $(VENV)/bin/python tests/tools/guides.py .

docs: ready ## build the HTML documentation
	@rm -rf $(RUN)/docs && mkdir -p -m 700 $(RUN)/docs
	@cd $(RUN)/docs && antsibull-docs sphinx-init --use-current --squash-hierarchy --sphinx-theme alabaster --lenient \
		--dest-dir . muster.kube > /dev/null
	@cd $(RUN)/docs && antsibull-docs --config-file antsibull-docs.cfg collection --use-current --squash-hierarchy \
		--dest-dir rst muster.kube
	@cd $(RUN)/docs && sphinx-build -q -W --keep-going -b html -c . -D extensions=sphinx_antsibull_ext \
		-D suppress_warnings=ref.ref rst html
	@echo "Open $(RUN)/docs/html/index.html"

clean: ## remove copies, logs and temporary files (environments and built programs stay)
	@rm -rf $(ROOT) $(SANITY_ROOT) $(RUN) $(TMPDIR) $(HOME) $(MYPY_CACHE_DIR) $(RUFF_CACHE_DIR) $(HYPOTHESIS_STORAGE_DIRECTORY) \
		$(PYTHONPYCACHEPREFIX)
	@echo "Running clusters, environments and built programs are still in $(MUSTER_CACHE)"

help: ## this text
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile
	@echo; echo "Everything is kept in $(MUSTER_CACHE) (set MUSTER_CACHE to change that)."

# --- what the targets above are made of ---
.PHONY: ready venv tree sanity-tree trees home go packages importer-venv core216-venv rulebook-venv tarball install lock durations
.PHONY: unit-memory unit-pure importer builder smoke216 demo-tarball readme guide $(addprefix lint-,$(LINTS))

# Inside `make test` the preparations were done once, before steps ran side by side.
ifdef MUSTER_PREPARED
ready go sanity-tree tarball install:
	@:
else
ready: venv tree

go: venv
	@$(PYTHON) tests/tools/environments.py go $(MUSTER_CACHE) tools

sanity-tree: venv
	@$(call copy,$(SANITY_ROOT),$(SANITY_TREE),$(SANITY_FILES))

tarball: ready
	@rm -rf $(RUN)/dist && ansible-galaxy collection build $(TREE) --output-path $(RUN)/dist > /dev/null

install: tarball
	@rm -rf $(INSTALLED) && mkdir -p $(INSTALLED)
	@ANSIBLE_COLLECTIONS_PATH=$(INSTALLED) ansible-galaxy collection install $(TARBALL) -p $(INSTALLED) --offline --no-deps > /dev/null
	@ln -sfn $(SITE)/ansible_collections/kubernetes $(INSTALLED)/ansible_collections/kubernetes
endif

importer-venv: home
	@$(PYTHON) tests/tools/environments.py make $(MUSTER_CACHE) importer

core216-venv: home
	@$(PYTHON) tests/tools/environments.py make $(MUSTER_CACHE) core216 oldest

rulebook-venv: home
	@$(PYTHON) tests/tools/environments.py make $(MUSTER_CACHE) rulebook

trees: ready sanity-tree

# Copy the tree, and put kubernetes.core beside it: ansible-test looks nowhere else.
copy = mkdir -p $(2) && $(PYTHON) tests/tools/sync_tree.py $(CURDIR) $(2) $(3) \
	&& ln -sfn $(SITE)/ansible_collections/kubernetes $(1)/ansible_collections/kubernetes

venv: home
	@$(PYTHON) tests/tools/environments.py make $(MUSTER_CACHE) tools

tree: venv
	@$(call copy,$(ROOT),$(TREE))

# The user's settings of pip, git and Go stay in force; nothing else of the home directory is seen.
home:
	@mkdir -p $(HOME)/.config/go $(TMPDIR) $(RUN)
	@for name in .gitconfig .config/git .config/pip .config/go/env .config/uv .pip; do \
		if [[ -e '$(MUSTER_REAL_HOME)'/$$name && ! -e $(HOME)/$$name ]]; then \
			ln -sfn '$(MUSTER_REAL_HOME)'/$$name $(HOME)/$$name; fi; done

packages: venv
	@missing=$$(bindep -b -f bindep.txt $(TEST_PROFILES) || true); \
	if [[ -n $$missing ]]; then \
		if [[ $$EUID == 0 ]] && command -v apt-get > /dev/null; then \
			$(PYTHON) tests/tools/packages.py $$missing; \
		else echo "Please install these packages first:" $$missing; exit 1; fi; fi

lock: home ## resolve the tools' versions anew
	@$(PYTHON) tests/tools/lock.py $(MUSTER_CACHE)

durations: # keep what the files of the last whole integration run took; the longest run first
	@cp $(RUN)/durations.json tests/integration/durations.json

lint-ruff: ready
	@cd $(TREE); code=0; ruff format --check -q . || code=1; ruff check -q . || code=1; exit $$code

lint-mypy: ready
	@cd $(ROOT) && mypy --config-file $(TREE)/pyproject.toml -p ansible_collections.muster.kube.plugins.module_utils

lint-layers: ready
	@cd $(TREE) && PYTHONPATH=$(ROOT) lint-imports --no-cache > $(RUN)/layers.log || { cat $(RUN)/layers.log; false; }

lint-limits: ready
	@python tests/tools/limits.py $(TREE)

lint-reuse: ready
	@cd $(TREE) && reuse lint -q || { reuse lint; false; }

lint-ansible: ready
	@cd $(TREE) && ansible-lint -q --offline --profile production

lint-shell: ready
	@cd $(TREE) && shellcheck .ci/run $$(find . -name '*.sh')

lint-docs: ready
	@cd $(TREE) && antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs=self .

lint-changelog: ready
	@cd $(TREE) && antsibull-changelog lint

importer: builder tarball importer-venv
	@cd $(RUN)/dist && PATH=$(IMPORTER)/bin:$$PATH GALAXY_IMPORTER_CONFIG=$(CURDIR)/tests/tools/galaxy-importer.cfg \
		python -m galaxy_importer.main $(TARBALL) > $(RUN)/importer.log 2>&1 || { cat $(RUN)/importer.log; false; }
	@! grep -E 'WARNING|ERROR' $(RUN)/importer.log

builder: ready
	@ansible-builder introspect $(ROOT) > $(RUN)/builder.log
	@grep -q 'kubernetes.*muster.kube' $(RUN)/builder.log || { cat $(RUN)/builder.log; false; }

# The oldest ansible-core and libraries: what sees them is tested again, the rest does not depend on them. The HTTP server
# sees aiohttp only, of which no oldest version is promised.
SEES_ANSIBLE := action modules plugin_utils filter module_utils/_face module_utils/_kube module_utils/_store
SEES_NO_ANSIBLE := module_utils/_face/service/test_server.py
smoke216: tarball core216-venv
	@rm -rf $(RUN)/core216 && mkdir -p $(RUN)/core216
	@cd $(RUN)/core216 && export ANSIBLE_COLLECTIONS_PATH=$(RUN)/core216 PATH=$(CORE216)/bin:$$PATH \
		&& ansible-galaxy collection install $(TARBALL) -p . --offline --no-deps > /dev/null \
		&& ln -sfn $(OLDEST)/lib/python3*/site-packages/ansible_collections/kubernetes ansible_collections/kubernetes \
		&& ansible-galaxy collection list kubernetes.core 2> /dev/null | grep '^kubernetes.core' \
		&& pip list 2> /dev/null | grep -E '^(ansible-core|cryptography|jmespath|kubernetes|PyYAML) ' \
		&& ansible-playbook $(TREE)/tests/smoke/smoke.yml \
		&& ln -s $(TREE)/tests ansible_collections/muster/kube/tests \
		&& cd $(TREE) && PYTHONPATH=$(RUN)/core216 pytest -q $(addprefix tests/unit/plugins/,$(SEES_ANSIBLE)) \
			$(addprefix --ignore=tests/unit/plugins/,$(SEES_NO_ANSIBLE))

remove_cluster = ansible localhost -m muster.kube.local_cluster -a 'name=$(1) state=absent' > /dev/null

demo-tarball: install go
	@cd $(RUN) && export ANSIBLE_COLLECTIONS_PATH=$(INSTALLED); trap "$(call remove_cluster,demo-tarball)" EXIT; \
		ansible-playbook muster.kube.demo -e demo_cluster=demo-tarball

# What README and guide tell the reader to paste, with the installed collection; only the clusters have other names.
page = $(PYTHON) $(CURDIR)/tests/tools/page_playbook.py $(4) $(CURDIR)/$(1) | sed 's/name: $(2)$$/name: $(3)/'

readme: install go
	@cd $(RUN) && export ANSIBLE_COLLECTIONS_PATH=$(INSTALLED); trap "$(call remove_cluster,readme)" EXIT; \
		$(call page,README.md,first,readme) > fit.yml; \
		ansible-playbook fit.yml | tee readme.log; grep -q 'short in all: 2 nvidia.com/gpu' readme.log

guide: install go
	@cd $(RUN) && export ANSIBLE_COLLECTIONS_PATH=$(INSTALLED); trap "$(call remove_cluster,guide-test); $(call remove_cluster,guide-elastic)" EXIT; \
		$(call page,docs/first_gang.md,guide,guide-test) > guide.yml; \
		ansible-playbook guide.yml | tee guide.log; grep -q 'train-b is queued' guide.log; \
		export KUBECONFIG=$$(ansible localhost -m muster.kube.local_cluster_info -a name=guide-test | sed -n 's/.*"kubeconfig": "\(.*\)".*/\1/p'); \
		$(call page,docs/first_gang.md,guide,guide-test,--own-cluster) > guide.yml; \
		ansible-playbook guide.yml | tee guide.log; grep -q 'train-b is queued' guide.log; \
		$(call page,docs/share.md,guide,guide-test,--own-cluster) > guide.yml; \
		ansible-playbook guide.yml | tee guide.log; grep -q 'queue teams: short 2 nvidia.com/gpu' guide.log; \
		$(call page,docs/elastic.md,elastic-guide,guide-elastic) > guide.yml; \
		ansible-playbook guide.yml | tee guide.log; grep -q 'the sizes are 4, 3, 3' guide.log; grep -q '4 jobs and [2-9] resizes are drawn' guide.log
