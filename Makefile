# SPDX-License-Identifier: Apache-2.0
# make demo    the main job, with its plot          make test      the tests, two at a time (PYTEST="-n 0": one)
# make setup   everything into ./.venv              make test-all  the long ones too
# make docs    the documentation into build/docs    make lint, make format
# make wheel   dist/: a wheel with the lab kernel inside      make image    a container image with it
# make vm-image dist/vm/: a bootable machine image with it, for qemu and VirtualBox
# make pictures the labs' pictures in docs/labs, by the commands that the pages tell
# make bench   every bench of `dcgym bench`, with a table at the end: hours (BENCHES="links enforce": these alone)
# make fuzz    fuzzes the parsers, and prints what it reaches (SECONDS=10)
# make test-rl the training's tests, with Ray and torch (6 GB on disk)
# All of them install what they need, may be run again at any time, and build the lab kernel once. STRICT=1: warnings are errors.

VENV := .venv
PYTHON := $(VENV)/bin/python
DCGYM := $(VENV)/bin/dcgym
BIN := dc_gym/bin
ANY_PYTHON := $(abspath $(or $(wildcard $(PYTHON)),$(shell command -v python3)))
CC := cc
CLANG := clang
CFLAGS := -std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra $(if $(STRICT),-Werror)

NIC_FOLDERS := dc_gym/ctrl/nic/algorithms $(wildcard dc_gym/methods/*/nic)
NIC_ALGORITHM_HEADERS := $(wildcard $(addsuffix /*/*.h,$(NIC_FOLDERS)))
NIC_ALGORITHMS := $(basename $(notdir $(NIC_ALGORITHM_HEADERS)))
PROGRAMS := $(addprefix $(BIN)/,lab-init lab-launch lab-hand qmon capd agentd hostd eventd tgen linkprobe vm-init vm-launch nicd cctest libsteps.so) \
	$(foreach name,$(NIC_ALGORITHMS),$(addprefix $(BIN)/,ccrun-$(name) nic-$(name).bpf.o nic-$(name).native cctest-$(name).bpf.o))
C_FILES := $(wildcard kernel/*.[ch] kernel/drivers/*.[ch] kernel/object/*.[ch] traffic/tgen/*.[ch] monitors/*.[ch] dc_gym/daemon/*.[ch] ctrl/agent/*.[ch] ctrl/nic/*.[ch] ctrl/nic/doca/*.[ch] ctrl/nic/algorithms/*/*.h dc_gym/methods/*/nic/*.h dc_gym/methods/*/nic/*/*.h benchmarks/checks/*.[ch] dc_gym/methods/*/bench/*.[ch] dc_gym/learn/native/*.[ch] dc_gym/run/grounds/host/*.[ch] tests/c/*.[ch] tests/*.c tests/methods/*/*.[ch] tests/system/faults/*.[ch] benchmarks/peers/*.cc benchmarks/peers/*.h)

.PHONY: setup demo test test-all test-rl bench fuzz lint format lock docs pictures programs kernel openvswitch wheel image vm-image clean

# One after the other, also with -j: what is built needs the packages, and the kernel's builder the environment.
setup:
	@scripts/packages.sh
	@$(MAKE) --no-print-directory $(VENV)/.installed
	@$(MAKE) --no-print-directory programs kernel openvswitch

demo: setup
	$(DCGYM) demo --out results/demo

test: setup
	@$(MAKE) --no-print-directory lint
	$(PYTHON) -m pytest -n 2 --dist worksteal -m "not long and not installed" $(PYTEST)

# With all that tests are skipped for the want of: the VM of the host ground, a browser, peers, the extras.
test-all: setup
	@$(MAKE) --no-print-directory lint
	@scripts/packages.sh qemu-system-x86 chromium iperf3 libns3-dev tcpdump
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[dev,rl,distil]'
	$(PYTHON) -c "from dc_gym.run.grounds.host import vm; from dc_gym.base.progress import Quiet; vm.prepare(Quiet())"
	$(PYTHON) scripts/wheel.py --no-source build/wheel
	DCGYM_REQUIRE_RL=1 $(PYTHON) -m pytest $(PYTEST)

bench: setup
	@scripts/packages.sh qemu-system-x86 iperf3 libns3-dev
	$(PYTHON) scripts/benches.py $(BENCHES)

# The table of what fuzzing reaches: SECONDS for each C target, and a fixed number of inputs for each Python reader.
SECONDS ?= 10
fuzz: setup
	$(PYTHON) tests/c_fuzzers.py $(SECONDS)

test-rl: setup
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[dev,rl]'
	DCGYM_REQUIRE_RL=1 $(PYTHON) -m pytest tests/learn/rllib

lint: $(VENV)/.installed
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo --no-cache
	$(PYTHON) scripts/reference.py
	$(VENV)/bin/clang-format --dry-run --Werror $(C_FILES)

format: $(VENV)/.installed
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(VENV)/bin/clang-format -i $(C_FILES)

# dist/: the wheel with the lab kernel inside, the source distribution, and the source of what is under the GPL.
wheel: setup
	$(PYTHON) scripts/wheel.py dist

# An image with the wheel installed, by podman or docker. BASE: another base than the Containerfile's.
BUILDER ?= $(firstword $(foreach tool,podman docker,$(if $(shell command -v $(tool)),$(tool))))
image: wheel
	$(or $(BUILDER),$(error make image needs podman or docker: install one of them)) build $(if $(BASE),--build-arg BASE=$(BASE)) -t dcgym .

# dist/vm/: a machine that boots, with the wheel, the labs and a notebook server: qcow2 and OVA, with SHA256SUMS. SIZE: of its disk.
SIZE ?= 8GiB
vm-image: wheel
	@scripts/packages.sh mmdebstrap fakeroot e2fsprogs grub-common grub-pc-bin qemu-utils uidmap
	$(PYTHON) -m scripts.vm_image --size $(SIZE) dist/vm

docs: $(VENV)/.installed
	$(PYTHON) -m zensical build --strict --clean
	$(PYTHON) scripts/docs.py build/docs
	@echo build/docs/index.html

pictures: setup
	$(PYTHON) scripts/pictures.py

kernel: $(VENV)/.installed
	@$(DCGYM) kernel build

openvswitch: $(VENV)/.installed
	@$(PYTHON) -c "from dc_gym.kernel import openvswitch; openvswitch.ensure()"

$(VENV)/.installed: pyproject.toml setup.py requirements.lock
	@scripts/venv.sh $(VENV)
	@touch $@

# A release audits the three files that `make lock` writes (pip-audit -r) and makes an SBOM where the wheel is installed
# (cyclonedx-py environment).
# The versions that `make setup` installs, with their hashes, for every Python: anew from pyproject.toml. Then those of them that the
# container has, and those of the machine image, for its Python alone.
lock: $(VENV)/.installed
	$(VENV)/bin/pip install --quiet --disable-pip-version-check uv
	$(VENV)/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate --python-version 3.11 --extra dev \
		--custom-compile-command "make lock" --upgrade --output-file requirements.lock pyproject.toml
	$(VENV)/bin/uv pip compile --quiet --universal --generate-hashes --no-annotate --python-version 3.11 \
		--custom-compile-command "make lock" --upgrade --constraint requirements.lock --output-file scripts/container.lock pyproject.toml
	$(VENV)/bin/uv pip compile --quiet --generate-hashes --no-annotate --python-version 3.11 --python-platform x86_64-manylinux_2_36 \
		--custom-compile-command "make lock" --upgrade --constraint requirements.lock --output-file scripts/vm/requirements.lock \
		scripts/vm/requirements.in pyproject.toml

# The C programs. Their sources are named below dc_gym/, where a source distribution has them too. They are linked statically:
# they run wherever the lab kernel does, whatever libraries are there. Each takes its place when it is whole.
# A run compares sources.sha256 with what the sources do that are there, so that a stale program is noticed. Root's runs compare the
# programs with SHA256SUMS.
programs: $(PROGRAMS) $(BIN)/sources.sha256 $(BIN)/SHA256SUMS

$(BIN):
	mkdir -p $@

Q := $(if $(V),,@)# V=1 shows the commands

# link: $(1) are flags, sources and libraries.
define link
	@echo "cc     $@"
	$(Q)$(CC) $(CFLAGS) -static -o $@.$$$$ $(1) && chmod 755 $@.$$$$ && mv -f $@.$$$$ $@
endef

KERNEL := dc_gym/kernel
MONITORS := dc_gym/monitors
DAEMON := dc_gym/daemon
CONTROL := dc_gym/ctrl/agent
NIC := dc_gym/ctrl/nic
TGEN_FOLDER := dc_gym/traffic/tgen

INIT := $(addprefix $(KERNEL)/,init.c boot_file.c)
$(BIN)/lab-init: $(INIT) $(KERNEL)/boot_file.h $(KERNEL)/drivers/lab.h | $(BIN)
	$(call link,$(INIT))

$(BIN)/lab-hand: $(KERNEL)/hand.c $(KERNEL)/hand.h $(KERNEL)/drivers/lab.h | $(BIN)
	$(call link,$<)

LAUNCH := $(addprefix $(KERNEL)/,launch.c confine.c)
$(BIN)/lab-launch: $(LAUNCH) $(addprefix $(KERNEL)/,confine.h seccomp_filter.h) | $(BIN)
	$(call link,$(LAUNCH))

$(BIN)/vm-init: dc_gym/run/grounds/host/vm_init.c | $(BIN)
	$(call link,$<)

$(BIN)/vm-launch: dc_gym/run/grounds/host/vm_launch.c $(KERNEL)/seccomp_filter.h | $(BIN)
	$(call link,-I$(KERNEL) $<)

MONITOR_HEADERS := $(wildcard $(MONITORS)/*.h $(DAEMON)/*.h) $(KERNEL)/drivers/lab.h
PROGRAM := $(addprefix $(DAEMON)/,program.c options.c)
INPUT := $(PROGRAM) $(addprefix $(DAEMON)/,record_file.c fault.c)
SWEEPER := $(addprefix $(MONITORS)/,sweeper.c ports.c qdisc.c matrix.c) $(addprefix $(DAEMON)/,netns.c nl.c batch.c calls.c) $(INPUT)
QMON := $(MONITORS)/qmon.c $(SWEEPER)
$(BIN)/qmon: $(QMON) $(MONITOR_HEADERS) | $(BIN)
	$(call link,-I$(DAEMON) -I$(MONITORS) -I$(KERNEL)/drivers $(QMON))

CAPD := $(addprefix $(MONITORS)/,capd.c ring.c pcapng.c ports.c) $(DAEMON)/netns.c $(INPUT)
$(BIN)/capd: $(CAPD) $(MONITOR_HEADERS) | $(BIN)
	$(call link,-I$(DAEMON) -I$(MONITORS) $(CAPD))

CONTROL_HEADERS := $(wildcard $(CONTROL)/*.h) $(MONITOR_HEADERS)
CONTROL_FLAGS := -I$(DAEMON) -I$(MONITORS) -I$(CONTROL) -I$(KERNEL)/drivers
CTRL := $(addprefix $(CONTROL)/,actuators.c enforce.c control.c) $(SWEEPER)
AGENTD := $(addprefix $(CONTROL)/,agentd.c episode.c commands.c) $(CTRL)
$(BIN)/agentd: $(AGENTD) $(CONTROL_HEADERS) | $(BIN)
	$(call link,$(CONTROL_FLAGS) $(AGENTD))

HOSTD := $(CONTROL)/hostd.c $(CTRL)
$(BIN)/hostd: $(HOSTD) $(CONTROL_HEADERS) | $(BIN)
	$(call link,$(CONTROL_FLAGS) $(HOSTD))

EVENTD := $(addprefix $(CONTROL)/,eventd.c events_file.c) $(MONITORS)/ports.c $(addprefix $(DAEMON)/,netns.c nl.c batch.c calls.c) $(INPUT)
$(BIN)/eventd: $(EVENTD) $(CONTROL_HEADERS) | $(BIN)
	$(call link,$(CONTROL_FLAGS) $(EVENTD))

TGEN := $(wildcard $(TGEN_FOLDER)/*.c) $(DAEMON)/calls.c $(INPUT)
$(BIN)/tgen: $(TGEN) $(wildcard $(TGEN_FOLDER)/*.h $(NIC)/*.h) $(KERNEL)/drivers/lab_int.h $(MONITOR_HEADERS) | $(BIN)
	$(call link,-I$(DAEMON) -I$(MONITORS) -I$(TGEN_FOLDER) -I$(NIC) -I$(KERNEL)/drivers $(TGEN))

# Python loads this one. It has no libc of its own and names none: the symbols are those of Python's, whichever that is.
STEPS := $(wildcard dc_gym/learn/native/*.c)
STEPS_HEADERS := $(wildcard dc_gym/learn/native/*.h) $(MONITORS)/state_matrix.h $(KERNEL)/drivers/lab.h $(KERNEL)/hand.h
$(BIN)/libsteps.so: $(STEPS) $(STEPS_HEADERS) | $(BIN)
	@echo "cc     $@"
	$(Q)$(CC) $(CFLAGS) -fPIC -shared -nostdlib -fno-stack-protector -ffp-contract=off -I$(MONITORS) -I$(KERNEL)/drivers -I$(KERNEL) \
		-o $@.$$$$ $(STEPS) && chmod 755 $@.$$$$ && mv -f $@.$$$$ $@

LINKPROBE := dc_gym/benchmarks/checks/linkprobe.c $(MONITORS)/qdisc.c $(addprefix $(DAEMON)/,netns.c nl.c batch.c calls.c) $(PROGRAM)
$(BIN)/linkprobe: $(LINKPROBE) $(MONITOR_HEADERS) | $(BIN)
	$(call link,-I$(DAEMON) -I$(MONITORS) -I$(KERNEL)/drivers $(LINKPROBE))

NIC_HEADERS := $(wildcard $(NIC)/*.h $(addsuffix /*.h,$(NIC_FOLDERS))) $(NIC_ALGORITHM_HEADERS) $(addprefix $(KERNEL)/drivers/,nic_native.h lab_int.h)
LIBBPF = $(or $(shell pkg-config --static --libs libbpf),$(error pkg-config finds no libbpf: install pkg-config and libbpf-dev))
NICD := $(addprefix $(NIC)/,nicd.c barrier.c data_path.c stand_in.c hooks.c rows.c nics.c cctrace.c libelf_gap.c) $(INPUT)
$(BIN)/nicd: $(NICD) $(NIC_HEADERS) $(MONITOR_HEADERS) | $(BIN)
	$(call link,-I$(DAEMON) -I$(MONITORS) -I$(NIC) -I$(KERNEL)/drivers $(NICD) $(LIBBPF))

CCTEST := $(addprefix $(NIC)/,cctest.c stand_in.c cctrace.c libelf_gap.c) $(PROGRAM)
$(BIN)/cctest: $(CCTEST) $(NIC_HEADERS) $(MONITOR_HEADERS) | $(BIN)
	$(call link,-I$(DAEMON) -I$(NIC) -I$(KERNEL)/drivers $(CCTEST) $(LIBBPF))

# Of ccrun-NAME and the like: the header of the algorithm NAME.
ALGORITHM = -DCC_ALGORITHM='"$(patsubst dc_gym/%,%,$(filter %/$*.h,$(NIC_ALGORITHM_HEADERS)))"' -Idc_gym -I$(NIC)
CCRUN := $(addprefix $(NIC)/,ccrun.c cctrace.c) $(PROGRAM)
$(BIN)/ccrun-%: $(CCRUN) $(NIC_HEADERS) $(MONITOR_HEADERS) | $(BIN)
	$(call link,-I$(DAEMON) -I$(KERNEL)/drivers $(ALGORITHM) $(CCRUN))

# A NIC's data path, for the BPF machine of the kernel that loads it. clang -target bpf does not look where asm/types.h is.
BPF_CFLAGS = -target bpf -mcpu=v3 -O2 -g -Wall -Wextra $(if $(STRICT),-Werror) -I$(KERNEL)/drivers -idirafter /usr/include/$(shell $(CC) -print-multiarch)
define bpf
	@echo "clang  $@"
	$(Q)$(CLANG) $(BPF_CFLAGS) $(ALGORITHM) -c -o $@.$$$$ $< && chmod 644 $@.$$$$ && mv -f $@.$$$$ $@
endef
$(BIN)/nic-%.bpf.o: $(NIC)/shim.bpf.c $(NIC_HEADERS) | $(BIN)
	$(call bpf)

$(BIN)/cctest-%.bpf.o: $(NIC)/cctest.bpf.c $(NIC_HEADERS) | $(BIN)
	$(call bpf)

# The same for the lab kernel: machine code that runs at any address and uses no registers but the general ones.
NATIVE_CFLAGS = -std=gnu11 -O2 -Wall -Wextra $(if $(STRICT),-Werror) -DNIC_NATIVE -ffreestanding -fPIE -fvisibility=hidden \
	-fno-strict-aliasing -fno-stack-protector -fcf-protection=none -fno-asynchronous-unwind-tables -mno-red-zone -mgeneral-regs-only \
	-nostdlib -static-pie -Wl,--no-dynamic-linker,--build-id=none,--orphan-handling=error,-z,noexecstack
$(BIN)/nic-%.native: $(NIC)/native.c $(NIC)/native.ld $(NIC)/shim.bpf.c $(NIC_HEADERS) | $(BIN)
	@echo "native $@"
	$(Q)$(CC) $(NATIVE_CFLAGS) -I$(KERNEL)/drivers $(ALGORITHM) -Wl,-T,$(NIC)/native.ld -o $@.$$$$.elf $< \
		&& objcopy -O binary $@.$$$$.elf $@.$$$$ && rm -f $@.$$$$.elf && chmod 644 $@.$$$$ && mv -f $@.$$$$ $@

SOURCES := $(addprefix $(KERNEL)/,init.c boot_file.c boot_file.h hand.c launch.c confine.c confine.h seccomp_filter.h drivers/lab.h drivers/nic_native.h drivers/lab_int.h) $(QMON) $(CAPD) $(EVENTD) $(MONITOR_HEADERS) $(TGEN) $(wildcard $(TGEN_FOLDER)/*.h) \
	$(NIC_HEADERS) $(wildcard $(CONTROL)/*.[ch] $(NIC)/*.[ch] $(NIC)/*.ld) dc_gym/benchmarks/checks/linkprobe.c $(wildcard dc_gym/run/grounds/host/*.c) \
	$(STEPS) $(STEPS_HEADERS)
$(BIN)/sources.sha256: $(PROGRAMS) dc_gym/base/behaviour.py
	@cd dc_gym && PYTHONPATH=.. $(ANY_PYTHON) -P -m dc_gym.base.behaviour $(patsubst dc_gym/%,%,$(sort $(SOURCES))) > bin/sources.$$$$ && chmod 644 bin/sources.$$$$ && mv -f bin/sources.$$$$ bin/sources.sha256

$(BIN)/SHA256SUMS: $(PROGRAMS)
	@cd $(BIN) && sha256sum $(sort $(notdir $(PROGRAMS))) > sums.$$$$ && chmod 644 sums.$$$$ && mv -f sums.$$$$ SHA256SUMS

clean:
	rm -rf build $(BIN) $(VENV) *.egg-info .cache .mypy_cache .ruff_cache .pytest_cache
