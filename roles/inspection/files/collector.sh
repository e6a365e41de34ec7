#!/bin/sh
# Copyright (c) 2026, The muster.kube authors
# BSD 2-Clause License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/license/bsd-2-clause)
# SPDX-License-Identifier: BSD-2-Clause
#
# Run one script inside any image and print one framed JSON result, last, on stdout.
#
# Needs a POSIX shell and coreutils or busybox; python3, setsid, timeout and the GPU tools are used when they are there.
# Whatever cannot be found is null, with a reason. Exits with the script's exit code, or 125 when it cannot work at all.
#
#   MUSTER_SCRIPT        the script; its arguments are the collector's own arguments
#   MUSTER_WORK          a writable directory for temporary files (/tmp)
#   MUSTER_WORKDIR       where the script runs (where the collector was started)
#   MUSTER_INTERPRETER   runs the script instead of the interpreter its first line names, for example "python3 -u"
#   MUSTER_HWINFO        where the hardware facts are written before the script starts ($MUSTER_WORK/hwinfo.json)
#   MUSTER_OUTPUT_BYTES  how much of each output stream is kept, half from its begin, half from its end (65536)
#   MUSTER_WARMUP        how often the script runs before the run that counts (0)
#   MUSTER_INDEX         the number of this repetition (0)
#   MUSTER_INDEXES       numbers of repetitions; MUSTER_INDEX is then a position among them, and the script sees the number
#   MUSTER_GRACE         seconds between SIGTERM and SIGKILL for a script that has to stop (5)
#   MUSTER_LIVE          1: what is kept of the begin of both streams appears on stdout at once, before the frame
#   MUSTER_SECRET_VARIABLES  names of variables whose values are masked in all output that is kept or shown
#   MUSTER_SECRET_PATHS      the same for files, and for all files in folders, one path in each line
#   MUSTER_NODE_NAME, MUSTER_POD_NAME, MUSTER_POD_UID, MUSTER_LIMIT_CPU (thousandths), MUSTER_LIMIT_MEMORY (bytes):
#                        what the cluster says, repeated in the result
#   MUSTER_PROC, MUSTER_SYS
#                        where the facts about the machine and the control group are read (/proc, /sys)

# All variables begin with c_: others may be in the environment, and then the script would see them changed.
# shellcheck disable=SC2086 # words are split on purpose in several places; file names are never expanded
# shellcheck disable=SC2034,SC2154 # some variables are set and read by eval
set -f

# --- small tools: answers come back in variables, because a subshell would cost a process ---------------------------

complain() {
  printf 'collector: %s\n' "$1" >&2
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# The first line of a file, in $c_line; false when there is none.
line_of() {
  c_line=
  [ -r "$1" ] && IFS= read -r c_line 2>/dev/null <"$1"
  [ -n "$c_line" ]
}

# A text as a JSON string, in $c_quoted. Control characters become spaces.
quote() {
  case $1 in
    *[\"\\]* | *[[:cntrl:]]*) ;;
    *)
      c_quoted="\"$1\""
      return
      ;;
  esac
  c_quoted='"'
  c_quote_rest=$1
  while [ -n "$c_quote_rest" ]; do
    c_quote_tail=${c_quote_rest#?}
    c_quote_char=${c_quote_rest%"$c_quote_tail"}
    c_quote_rest=$c_quote_tail
    case $c_quote_char in
      \" | \\) c_quoted="$c_quoted\\$c_quote_char" ;;
      [[:cntrl:]]) c_quoted="$c_quoted " ;;
      *) c_quoted="$c_quoted$c_quote_char" ;;
    esac
  done
  c_quoted="$c_quoted\""
}

# A text as a JSON string, or null when it is empty, in $c_quoted.
quote_or_null() {
  c_quoted=null
  [ -z "$1" ] || quote "$1"
}

is_number() {
  case $1 in
    '' | *[!0-9]*) return 1 ;;
  esac
}

# A whole number without leading zeros, or null, in $c_number.
number_or_null() {
  c_number=null
  if is_number "$1"; then
    c_number=$1
    while [ "$c_number" != "${c_number#0}" ] && [ "$c_number" != 0 ]; do c_number=${c_number#0}; done
    [ -n "$c_number" ] || c_number=0
  fi
}

# A count of parts as a decimal number, in $c_decimal: `decimal 1500 3` is 1.500.
decimal() {
  c_decimal_unit=1
  c_decimal_left=$2
  while [ "$c_decimal_left" -gt 0 ]; do
    c_decimal_unit=${c_decimal_unit}0
    c_decimal_left=$((c_decimal_left - 1))
  done
  c_decimal_part=$((c_decimal_unit + $1 % c_decimal_unit))
  c_decimal=$(($1 / c_decimal_unit)).${c_decimal_part#1}
}

# Note why a fact is missing.
missing() {
  quote "$2"
  c_absent="$c_absent${c_absent:+,}\"$1\":$c_quoted"
}

# A member of a JSON object that is null, with a reason, when the value is empty: KEY PATH JSON-VALUE REASON; in $c_member.
member_of() {
  c_member="\"$1\":$3"
  case $3 in
    null | '')
      c_member="\"$1\":null"
      missing "$2" "$4"
      ;;
  esac
}

# --- time -----------------------------------------------------------------------------------------------------------

# Nanoseconds since 1970 in $c_now_ns, hundredths of seconds since the machine started in $c_now_ticks (-1 when unknown).
read_clock() {
  c_now_ns=$(date +%s%N 2>/dev/null)
  case $c_now_ns in
    *[!0-9]* | '' | ??????????)
      c_now_ns=$(date +%s 2>/dev/null)
      is_number "$c_now_ns" || c_now_ns=0
      c_now_ns=${c_now_ns}000000000
      c_clock_coarse=1
      ;;
  esac
  c_now_ticks=-1
  if line_of /proc/uptime; then
    c_now_ticks=${c_line%% *}
    c_now_ticks=${c_now_ticks%.*}${c_now_ticks#*.}
    is_number "$c_now_ticks" || c_now_ticks=-1
  fi
}

# Seconds between two readings, in $c_decimal. The clock on the wall may jump or be coarse; then the uptime is taken.
elapsed() {
  c_elapsed_ns=$((c_end_ns - c_start_ns))
  if [ "$c_start_ticks" -ge 0 ] && [ "$c_end_ticks" -ge 0 ]; then
    c_elapsed_up=$(((c_end_ticks - c_start_ticks) * 10000000))
    c_elapsed_gap=$((c_elapsed_ns - c_elapsed_up))
    if [ -n "$c_clock_coarse" ] || [ "$c_elapsed_gap" -gt 1000000000 ] || [ "$c_elapsed_gap" -lt -1000000000 ]; then
      c_elapsed_ns=$c_elapsed_up
    fi
  fi
  [ "$c_elapsed_ns" -ge 0 ] || c_elapsed_ns=0
  decimal "$c_elapsed_ns" 9
}

# --- checksums and base64 -------------------------------------------------------------------------------------------

# The SHA-256 of a file in $c_digest, empty when no program can tell.
digest_of() {
  c_digest=
  if has sha256sum; then
    c_digest=$(sha256sum <"$1" 2>/dev/null)
  elif has openssl; then
    c_digest=$(openssl dgst -sha256 -r <"$1" 2>/dev/null)
  elif has python3; then
    c_digest=$(python3 -IS -c 'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' <"$1" 2>/dev/null)
  fi
  c_digest=${c_digest%% *}
  [ "${#c_digest}" = 64 ] || c_digest=
}

# Base64 of stdin, in lines of 76 characters.
encode() {
  if has base64; then
    base64
  elif has python3; then
    python3 -IS -c 'import base64, sys; sys.stdout.buffer.write(base64.encodebytes(sys.stdin.buffer.read()))'
  else
    encode_slowly
  fi
}

# Base64 with nothing but od and the shell: three bytes become four characters, 57 bytes a line.
encode_slowly() {
  c_encode_index=0
  for c_encode_char in A B C D E F G H I J K L M N O P Q R S T U V W X Y Z a b c d e f g h i j k l m n o p q r s t u v w x y z \
    0 1 2 3 4 5 6 7 8 9 + /; do
    eval "c_encode_$c_encode_index=\$c_encode_char"
    c_encode_index=$((c_encode_index + 1))
  done
  c_encode_held=0
  c_encode_sum=0
  c_encode_line=
  c_encode_quads=0
  for c_encode_byte in $(od -An -v -tu1); do
    c_encode_sum=$((c_encode_sum * 256 + c_encode_byte))
    c_encode_held=$((c_encode_held + 1))
    [ "$c_encode_held" = 3 ] || continue
    eval "c_encode_line=\$c_encode_line\$c_encode_$((c_encode_sum >> 18))\$c_encode_$((c_encode_sum >> 12 & 63))\$c_encode_$((c_encode_sum >> 6 & 63))\$c_encode_$((c_encode_sum & 63))"
    c_encode_held=0
    c_encode_sum=0
    c_encode_quads=$((c_encode_quads + 1))
    if [ "$c_encode_quads" = 19 ]; then
      printf '%s\n' "$c_encode_line"
      c_encode_line=
      c_encode_quads=0
    fi
  done
  case $c_encode_held in
    1) eval "c_encode_line=\$c_encode_line\$c_encode_$((c_encode_sum >> 2))\$c_encode_$((c_encode_sum << 4 & 63))==" ;;
    2) eval "c_encode_line=\$c_encode_line\$c_encode_$((c_encode_sum >> 10))\$c_encode_$((c_encode_sum >> 4 & 63))\$c_encode_$((c_encode_sum << 2 & 63))=" ;;
  esac
  [ -z "$c_encode_line" ] || printf '%s\n' "$c_encode_line"
}

# --- hardware: the processor ----------------------------------------------------------------------------------------

# What the first processor of /proc/cpuinfo says. On big machines the file is long, so reading ends there.
read_cpuinfo() {
  c_cpu_vendor='' c_cpu_family='' c_cpu_model='' c_cpu_stepping='' c_cpu_brand='' c_cpu_flags='' c_cpu_cores='' c_cpu_siblings=''
  [ -r "$MUSTER_PROC/cpuinfo" ] || return 1
  while IFS= read -r c_line; do
    [ -n "$c_line" ] || break
    c_value=${c_line#*:}
    c_value=${c_value# }
    case $c_line in
      vendor_id*:*) c_cpu_vendor=$c_value ;;
      'CPU implementer'*) c_cpu_vendor=$c_value ;;
      'cpu family'* | 'CPU architecture'*) c_cpu_family=$c_value ;;
      'model name'*) c_cpu_brand=$c_value ;;
      model[!\ ]*:* | 'CPU part'*) c_cpu_model=$c_value ;;
      stepping*:* | 'CPU revision'*) c_cpu_stepping=$c_value ;;
      flags*:* | Features*:* | features*:*) c_cpu_flags=$c_value ;;
      'cpu cores'*) c_cpu_cores=$c_value ;;
      siblings*) c_cpu_siblings=$c_value ;;
    esac
  done <"$MUSTER_PROC/cpuinfo"
  case $c_cpu_model in
    0x*) c_cpu_model=$((c_cpu_model)) ;;
  esac
  case $c_cpu_vendor in
    0x41) c_cpu_vendor=ARM ;;
  esac
}

# Threads, cores, sockets and caches. The lists of the topology are read by `cat`: the kernel gives them to nobody who
# reads single bytes, as some shells do.
read_topology() {
  c_cpu_threads=0 c_cache_names=''
  count_lists thread_siblings_list
  c_cpu_core_count=$c_distinct
  count_lists core_siblings_list
  c_cpu_sockets=$c_distinct
  set +f
  for c_cpu_folder in "$MUSTER_SYS"/devices/system/cpu/cpu[0-9]*; do
    set -f
    [ -r "$c_cpu_folder/topology/core_id" ] || continue
    c_cpu_number=${c_cpu_folder##*/cpu}
    c_cpu_threads=$((c_cpu_threads + 1))
    for c_cache_index in 0 1 2 3 4 5; do
      # A cache is counted at the first processor that shares it.
      line_of "$c_cpu_folder/cache/index$c_cache_index/shared_cpu_list" || break
      [ "${c_line%%[-,]*}" != "$c_cpu_number" ] || count_cache "$c_cpu_folder/cache/index$c_cache_index"
    done
  done
  set -f
}

# How many different lists of processors there are in the files of one name, in $c_distinct; empty when there are none.
count_lists() {
  set +f
  c_lists=$(cat "$MUSTER_SYS"/devices/system/cpu/cpu[0-9]*/topology/"$1" 2>/dev/null)
  set -f
  c_distinct=0 c_seen=' '
  for c_list in $c_lists; do
    case $c_seen in
      *" $c_list "*) ;;
      *) c_distinct=$((c_distinct + 1)) c_seen="$c_seen$c_list " ;;
    esac
  done
  [ "$c_distinct" -gt 0 ] || c_distinct=''
}

# Add one cache to $cache_<name>_count; its size stays in $cache_<name>_bytes.
count_cache() {
  line_of "$1/level" || return 0
  c_cache_name=L$c_line
  line_of "$1/type"
  case $c_line in
    Data) c_cache_name=${c_cache_name}d ;;
    Instruction) c_cache_name=${c_cache_name}i ;;
  esac
  line_of "$1/size" || return 0
  case $c_line in
    *K) c_cache_bytes=$((${c_line%K} * 1024)) ;;
    *M) c_cache_bytes=$((${c_line%M} * 1048576)) ;;
    *) return 0 ;;
  esac
  case " $c_cache_names " in
    *" $c_cache_name "*) ;;
    *)
      c_cache_names="$c_cache_names${c_cache_names:+ }$c_cache_name"
      eval "c_cache_${c_cache_name}_count=0"
      ;;
  esac
  eval "c_cache_${c_cache_name}_bytes=$c_cache_bytes c_cache_${c_cache_name}_count=\$((c_cache_${c_cache_name}_count + 1))"
}

has_flags() {
  for c_wanted_flag; do
    case " $c_cpu_flags " in
      *" $c_wanted_flag "*) ;;
      *) return 1 ;;
    esac
  done
}

# The x86-64 level of the psABI, 1 to 4, in $c_level; empty on other machines.
cpu_level() {
  c_level=
  [ "$c_cpu_arch" = x86_64 ] && [ -n "$c_cpu_flags" ] || return 0
  has_flags lm cmov cx8 fpu fxsr mmx syscall sse2 || return 0
  c_level=1
  has_flags cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 || return 0
  c_level=2
  has_flags avx avx2 bmi1 bmi2 f16c fma abm movbe xsave || return 0
  c_level=3
  has_flags avx512f avx512bw avx512cd avx512dq avx512vl || return 0
  c_level=4
}

# The member "cpu" of the hardware facts, in $c_cpu_json, and whether a hypervisor is there, in $c_virtualized.
describe_cpu() {
  c_cpu_arch=$(uname -m 2>/dev/null)
  read_cpuinfo || missing cpu "/proc/cpuinfo cannot be read"
  read_topology
  cpu_level
  c_where="not in /proc/cpuinfo"
  if [ "$c_cpu_threads" = 0 ]; then
    c_cpu_threads=$c_cpu_siblings
  fi
  if [ -z "$c_cpu_core_count" ]; then
    c_cpu_core_count=$c_cpu_cores
  fi
  quote_or_null "$c_cpu_arch" && member_of arch cpu.arch "$c_quoted" "uname does not tell it"
  c_cpu_json=$c_member
  quote_or_null "$c_cpu_vendor" && member_of vendor cpu.vendor "$c_quoted" "$c_where"
  c_cpu_json="$c_cpu_json,$c_member"
  number_or_null "$c_cpu_family" && member_of family cpu.family "$c_number" "$c_where"
  c_cpu_json="$c_cpu_json,$c_member"
  number_or_null "$c_cpu_model" && member_of model cpu.model "$c_number" "$c_where"
  c_cpu_json="$c_cpu_json,$c_member"
  number_or_null "$c_cpu_stepping" && member_of stepping cpu.stepping "$c_number" "$c_where"
  c_cpu_json="$c_cpu_json,$c_member"
  quote_or_null "$c_cpu_brand" && member_of brand cpu.brand "$c_quoted" "$c_where"
  c_cpu_json="$c_cpu_json,$c_member"
  quote_or_null "${c_level:+x86-64-v$c_level}" && member_of level cpu.level "$c_quoted" "levels exist for x86-64 only"
  c_cpu_json="$c_cpu_json,$c_member"
  describe_flags
  c_where="neither in /sys/devices/system/cpu nor in /proc/cpuinfo"
  number_or_null "$c_cpu_sockets" && member_of sockets cpu.sockets "$c_number" "$c_where"
  c_cpu_json="$c_cpu_json,$c_member"
  number_or_null "$c_cpu_core_count" && member_of cores cpu.cores "$c_number" "$c_where"
  c_cpu_json="$c_cpu_json,$c_member"
  number_or_null "$c_cpu_threads" && member_of threads cpu.threads "$c_number" "$c_where"
  c_cpu_json="$c_cpu_json,$c_member"
  describe_frequency
  describe_caches
}

# The flags as a list; the flag "hypervisor" says that this is a virtual machine.
describe_flags() {
  c_flag_list=
  for c_flag in $c_cpu_flags; do
    c_flag_list="$c_flag_list,\"$c_flag\""
  done
  if [ -n "$c_flag_list" ]; then
    c_cpu_json="$c_cpu_json,\"flags\":[${c_flag_list#,}]"
  else
    c_cpu_json="$c_cpu_json,\"flags\":null"
    missing cpu.flags "not in /proc/cpuinfo"
  fi
  c_virtualized=null
  case $c_cpu_arch,$c_cpu_flags in
    x86_64,?*) c_virtualized=false && has_flags hypervisor && c_virtualized=true ;;
    *) missing virtualized "only the flags of x86-64 tell it" ;;
  esac
}

describe_frequency() {
  c_frequency=$MUSTER_SYS/devices/system/cpu/cpu0/cpufreq
  c_number=null
  line_of "$c_frequency/cpuinfo_max_freq" && is_number "$c_line" && c_number=$((c_line / 1000))
  member_of mhz_max cpu.mhz_max "$c_number" "$c_frequency/cpuinfo_max_freq cannot be read"
  c_cpu_json="$c_cpu_json,$c_member"
  line_of "$c_frequency/scaling_governor"
  quote_or_null "$c_line" && member_of governor cpu.governor "$c_quoted" "$c_frequency/scaling_governor cannot be read"
  c_cpu_json="$c_cpu_json,$c_member"
}

describe_caches() {
  c_cache_json=
  for c_cache_name in $c_cache_names; do
    eval "c_cache_bytes=\$c_cache_${c_cache_name}_bytes c_cache_count=\$c_cache_${c_cache_name}_count"
    c_cache_json="$c_cache_json,\"$c_cache_name\":{\"size_bytes\":$c_cache_bytes,\"instances\":$c_cache_count}"
  done
  if [ -n "$c_cache_json" ]; then
    c_cpu_json="$c_cpu_json,\"caches\":{${c_cache_json#,}}"
  else
    c_cpu_json="$c_cpu_json,\"caches\":null"
    missing cpu.caches "not in /sys/devices/system/cpu"
  fi
}

# --- hardware: memory, system, graphics processors ------------------------------------------------------------------

# The members "memory" and "numa", in $c_memory_json.
describe_memory() {
  c_memory_total=null
  if [ -r "$MUSTER_PROC/meminfo" ]; then
    while read -r c_key c_value c_line; do
      if [ "$c_key" = MemTotal: ] && is_number "$c_value"; then
        c_memory_total=$((c_value * 1024))
        break
      fi
    done <"$MUSTER_PROC/meminfo"
  fi
  member_of total_bytes memory.total_bytes "$c_memory_total" "/proc/meminfo cannot be read"
  c_memory_json="\"memory\":{$c_member}"
  c_numa_nodes=0
  set +f
  for c_numa_folder in "$MUSTER_SYS"/devices/system/node/node[0-9]*; do
    [ ! -d "$c_numa_folder" ] || c_numa_nodes=$((c_numa_nodes + 1))
  done
  set -f
  [ "$c_numa_nodes" -gt 0 ] || c_numa_nodes=null
  member_of nodes numa.nodes "$c_numa_nodes" "/sys/devices/system/node cannot be read"
  c_memory_json="$c_memory_json,\"numa\":{$c_member}"
}

# The members "kernel" and "os", in $c_system_json; all of os-release, in $c_os_release_json.
describe_system() {
  line_of "$MUSTER_PROC/sys/kernel/osrelease" || c_line=$(uname -r 2>/dev/null)
  quote_or_null "$c_line" && member_of kernel kernel "$c_quoted" "uname does not tell it"
  c_system_json=$c_member
  c_os_release_json='' c_os_id=null c_os_version=null
  c_os_file=/etc/os-release
  [ -r "$c_os_file" ] || c_os_file=/usr/lib/os-release
  if [ -r "$c_os_file" ]; then
    while IFS= read -r c_line || [ -n "$c_line" ]; do
      read_os_line
    done <"$c_os_file"
  fi
  member_of id os.id "$c_os_id" "os-release does not tell it"
  c_system_json="$c_system_json,\"os\":{$c_member"
  member_of version os.version "$c_os_version" "os-release does not tell it"
  c_system_json="$c_system_json,$c_member}"
  if [ -n "$c_os_release_json" ]; then c_os_release_json="{${c_os_release_json#,}}"; else c_os_release_json=null; fi
}

# Take one NAME=value line of os-release, from $c_line.
read_os_line() {
  c_key=${c_line%%=*}
  c_value=${c_line#*=}
  case $c_key in
    "$c_line" | '' | *[!A-Za-z0-9_]*) return ;;
  esac
  case $c_value in
    \"*\") c_value=${c_value#\"} c_value=${c_value%\"} ;;
    \'*\') c_value=${c_value#\'} c_value=${c_value%\'} ;;
  esac
  quote "$c_value"
  c_os_release_json="$c_os_release_json,\"$c_key\":$c_quoted"
  case $c_key in
    ID) c_os_id=$c_quoted ;;
    VERSION_ID) c_os_version=$c_quoted ;;
  esac
}

# Run a program that may hang, for ten seconds at most when `timeout` is there.
bounded() {
  if has timeout; then timeout 10 "$@"; else "$@"; fi
}

# The member "gpus", in $c_gpus_json: what the tools of the makers list.
describe_gpus() {
  c_gpus_json='' c_gpu_tools=''
  if has nvidia-smi; then
    c_gpu_tools=nvidia-smi
    bounded nvidia-smi --query-gpu=name,uuid,driver_version,memory.total,compute_cap --format=csv,noheader,nounits \
      </dev/null >"$c_den/gpus" 2>/dev/null && read_nvidia
  fi
  if has amd-smi; then
    c_gpu_tools="$c_gpu_tools amd-smi"
    bounded amd-smi static --asic --vram --driver --csv </dev/null >"$c_den/gpus" 2>/dev/null && read_amd
  elif has rocm-smi; then
    c_gpu_tools="$c_gpu_tools rocm-smi"
    bounded rocm-smi --showproductname --showuniqueid --showmeminfo vram --showdriverversion --csv \
      </dev/null >"$c_den/gpus" 2>/dev/null && read_amd
  fi
  if [ -n "$c_gpus_json" ]; then
    c_gpus_json="[${c_gpus_json#,}]"
  elif [ -n "$c_gpu_tools" ]; then
    c_gpus_json="[]"
    missing gpus "no device listed by ${c_gpu_tools# }"
  else
    c_gpus_json=null
    missing gpus "nvidia-smi, amd-smi and rocm-smi are not in the image"
  fi
}

# Add a device: VENDOR PRODUCT UUID BYTES DRIVER RUNTIME.
add_gpu() {
  quote "$1" && c_gpu="{\"vendor\":$c_quoted"
  quote_or_null "$2" && c_gpu="$c_gpu,\"product\":$c_quoted"
  quote_or_null "$3" && c_gpu="$c_gpu,\"uuid\":$c_quoted"
  number_or_null "$4" && c_gpu="$c_gpu,\"memory_bytes\":$c_number"
  quote_or_null "$5" && c_gpu="$c_gpu,\"driver\":$c_quoted"
  quote_or_null "$6" && c_gpu="$c_gpu,\"runtime\":$c_quoted"
  c_gpus_json="$c_gpus_json,$c_gpu}"
}

read_nvidia() {
  while IFS=, read -r c_product c_uuid c_driver c_mib c_compute; do
    c_mib=${c_mib# }
    if is_number "$c_mib"; then c_mib=$((c_mib * 1048576)); fi
    [ -z "$c_uuid" ] || add_gpu nvidia "$c_product" "${c_uuid# }" "$c_mib" "${c_driver# }" "${c_compute:+compute capability ${c_compute# }}"
  done <"$c_den/gpus"
}

# The tables of amd-smi and rocm-smi have a line of names first; columns are found by these names.
read_amd() {
  c_gpu_header=
  while IFS= read -r c_line; do
    case $c_line,$c_gpu_header in
      *,*,) c_gpu_header=$c_line ;;
      *,*,?*) read_amd_row ;;
    esac
  done <"$c_den/gpus"
}

read_amd_row() {
  c_names=$c_gpu_header, c_values=$c_line, c_product='' c_uuid='' c_bytes='' c_driver=''
  while [ -n "$c_names" ]; do
    c_value=${c_values%%,*}
    case ${c_names%%,*} in
      market_name | 'Card Series' | 'Card series') c_product=$c_value ;;
      asic_serial | uuid | 'Unique ID') c_uuid=$c_value ;;
      'VRAM Total Memory (B)') c_bytes=$c_value ;;
      vram_size | size) if is_number "${c_value%% *}"; then c_bytes=$((${c_value%% *} * 1048576)); fi ;;
      driver_version | version | 'Driver version') c_driver=$c_value ;;
    esac
    c_names=${c_names#*,}
    case $c_values in
      *,*) c_values=${c_values#*,} ;;
      *) c_values= ;;
    esac
  done
  [ -z "$c_product$c_uuid" ] || add_gpu amd "$c_product" "$c_uuid" "$c_bytes" "$c_driver" ""
}

# --- control groups -------------------------------------------------------------------------------------------------

# Where the process's own groups are: $c_cpu_group, $c_memory_group and whether each is of version 1 or 2.
# The path of /proc/self/cgroup is tried below the mount first; in a container the mount often is the own group already.
find_groups() {
  c_cpu_group='' c_cpu_version='' c_cpu_mount='' c_memory_group='' c_memory_version='' c_memory_mount='' c_unified_path=''
  c_groups=$MUSTER_SYS/fs/cgroup
  [ -r "$MUSTER_PROC/self/cgroup" ] || return 0
  while IFS= read -r c_line; do
    c_group_path=${c_line#*:}
    c_group_names=,${c_group_path%%:*},
    c_group_path=${c_group_path#*:}
    case $c_line in
      0::*) c_unified_path=$c_group_path ;;
    esac
    case $c_group_names in
      *,cpu,*) try_groups "$c_group_path" "$c_groups/cpu" "$c_groups/cpu,cpuacct" && use_group cpu 1 ;;
    esac
    case $c_group_names in
      *,memory,*) try_groups "$c_group_path" "$c_groups/memory" && use_group memory 1 ;;
    esac
  done <"$MUSTER_PROC/self/cgroup"
  if try_groups "$c_unified_path" "$c_groups" && [ -r "$c_groups/cgroup.controllers" ]; then
    [ -n "$c_cpu_group" ] || use_group cpu 2
    [ -n "$c_memory_group" ] || use_group memory 2
  fi
}

# The first folder that exists of MOUNT/PATH and MOUNT, in $c_group and $c_mount.
try_groups() {
  c_try_path=${1%/}
  shift
  for c_mount; do
    c_group=$c_mount$c_try_path
    [ -r "$c_group/cgroup.procs" ] && return 0
    c_group=$c_mount
    [ -r "$c_group/cgroup.procs" ] && return 0
  done
  return 1
}

use_group() {
  eval "c_$1_group=\$c_group c_$1_mount=\$c_mount c_$1_version=$2"
}

# The smallest limits of the own groups and those above: thousandths of a processor in $c_limit_cpu, bytes in $c_limit_memory.
read_limits() {
  c_limit_cpu='' c_limit_memory=''
  c_group=$c_cpu_group
  while [ -n "$c_group" ]; do
    read_cpu_limit
    [ "$c_group" != "$c_cpu_mount" ] && c_group=${c_group%/*} || c_group=
  done
  c_group=$c_memory_group
  while [ -n "$c_group" ]; do
    if [ "$c_memory_version" = 1 ]; then line_of "$c_group/memory.limit_in_bytes"; else line_of "$c_group/memory.max"; fi
    # Version 1 says "no limit" with a number near the greatest.
    if is_number "$c_line" && [ "${#c_line}" -lt 19 ] && { [ -z "$c_limit_memory" ] || [ "$c_line" -lt "$c_limit_memory" ]; }; then
      c_limit_memory=$c_line
    fi
    [ "$c_group" != "$c_memory_mount" ] && c_group=${c_group%/*} || c_group=
  done
}

read_cpu_limit() {
  if [ "$c_cpu_version" = 1 ]; then
    line_of "$c_group/cpu.cfs_quota_us" && c_quota=$c_line || return 0
    line_of "$c_group/cpu.cfs_period_us" && c_period=$c_line || return 0
  else
    line_of "$c_group/cpu.max" || return 0
    c_quota=${c_line% *} c_period=${c_line#* }
  fi
  is_number "$c_quota" && is_number "$c_period" && [ "$c_period" -gt 0 ] || return 0
  c_quota=$((c_quota * 1000 / c_period))
  if [ -z "$c_limit_cpu" ] || [ "$c_quota" -lt "$c_limit_cpu" ]; then c_limit_cpu=$c_quota; fi
}

# The member "limits", in $c_limits_json.
describe_limits() {
  read_limits
  c_decimal=null
  [ -z "$c_limit_cpu" ] || decimal "$c_limit_cpu" 3
  c_why="no limit is set"
  [ -n "$c_cpu_group" ] || c_why="the control group cannot be read"
  member_of cpu limits.cpu "$c_decimal" "$c_why"
  c_limits_json=$c_member
  c_why="no limit is set"
  [ -n "$c_memory_group" ] || c_why="the control group cannot be read"
  member_of memory_bytes limits.memory_bytes "$c_limit_memory" "$c_why"
  c_limits_json="$c_limits_json,$c_member"
  c_cpuset=
  if [ -r "$MUSTER_PROC/self/status" ]; then
    while read -r c_key c_value; do
      if [ "$c_key" = Cpus_allowed_list: ]; then
        c_cpuset=$c_value
        break
      fi
    done <"$MUSTER_PROC/self/status"
  fi
  quote_or_null "$c_cpuset" && member_of cpuset limits.cpuset "$c_quoted" "/proc/self/status cannot be read"
  c_limits_json="$c_limits_json,$c_member"
}

# Counters of the own groups in $c_periods, $c_throttled, $c_throttled_usec, $c_oom_kill and $c_memory_peak; empty when unknown.
read_counters() {
  c_periods='' c_throttled='' c_throttled_usec='' c_oom_kill='' c_memory_peak=''
  if [ -n "$c_cpu_group" ] && [ -r "$c_cpu_group/cpu.stat" ]; then
    while read -r c_key c_value; do
      case $c_key in
        nr_periods) c_periods=$c_value ;;
        nr_throttled) c_throttled=$c_value ;;
        throttled_usec) c_throttled_usec=$c_value ;;
        throttled_time) c_throttled_usec=$((c_value / 1000)) ;;
      esac
    done <"$c_cpu_group/cpu.stat"
  fi
  c_oom_file=$c_memory_group/memory.events c_peak_file=$c_memory_group/memory.peak
  if [ "$c_memory_version" = 1 ]; then
    c_oom_file=$c_memory_group/memory.oom_control c_peak_file=$c_memory_group/memory.max_usage_in_bytes
  fi
  [ -n "$c_memory_group" ] || return 0
  if [ -r "$c_oom_file" ]; then
    while read -r c_key c_value; do
      [ "$c_key" != oom_kill ] || c_oom_kill=$c_value
    done <"$c_oom_file"
  fi
  line_of "$c_peak_file" && c_memory_peak=$c_line
}

# What changed since the counters before, in $c_pressure_json; the peak of memory is the group's since its begin.
describe_pressure() {
  c_why="the control group does not count it"
  c_pressure_json=
  for c_counter in periods throttled throttled_usec oom_kill; do
    eval "c_counter_now=\$c_$c_counter c_counter_before=\$c_${c_counter}_before"
    c_number=null
    if is_number "$c_counter_now" && is_number "$c_counter_before"; then c_number=$((c_counter_now - c_counter_before)); fi
    case $c_counter in
      periods | throttled) c_counter=nr_$c_counter ;;
    esac
    member_of "$c_counter" "pressure.$c_counter" "$c_number" "$c_why"
    c_pressure_json="$c_pressure_json$c_member,"
  done
  number_or_null "$c_memory_peak"
  member_of memory_peak_bytes pressure.memory_peak_bytes "$c_number" "$c_why"
  c_pressure_json="$c_pressure_json$c_member"
}

remember_counters() {
  read_counters
  c_periods_before=$c_periods c_throttled_before=$c_throttled c_throttled_usec_before=$c_throttled_usec c_oom_kill_before=$c_oom_kill
}

# All hardware facts, in $c_hwinfo_json without the closing brace: what is missing is added where they are used.
describe_hardware() {
  c_absent=
  describe_cpu
  describe_memory
  describe_system
  find_groups
  describe_limits
  describe_gpus
  quote_or_null "$MUSTER_NODE_NAME" && member_of name node.name "$c_quoted" "MUSTER_NODE_NAME is not set"
  c_hwinfo_json="{\"schema\":1,\"cpu\":{$c_cpu_json},$c_memory_json,\"gpus\":$c_gpus_json,\"limits\":{$c_limits_json},$c_system_json"
  c_hwinfo_json="$c_hwinfo_json,\"virtualized\":$c_virtualized,\"node\":{$c_member}"
  c_hwinfo_absent=$c_absent
}

# The script finds the facts at $MUSTER_HWINFO and, for scripts of older times, at /home/amun/hwinfo/info.json.
write_hardware() {
  remember_counters
  describe_pressure
  c_facts="$c_hwinfo_json,\"pressure\":{$c_pressure_json},\"absent\":{$c_absent}}"
  for c_facts_file in "$MUSTER_HWINFO" /home/amun/hwinfo/info.json; do
    c_facts_folder=${c_facts_file%/*}
    if [ -d "$c_facts_folder" ] && [ -w "$c_facts_folder" ]; then
      printf '%s\n' "$c_facts" 2>/dev/null >"$c_facts_file"
    elif [ "$c_facts_file" = "$MUSTER_HWINFO" ]; then
      note "the hardware facts cannot be written to $c_facts_file"
    fi
  done
}

# --- the script -----------------------------------------------------------------------------------------------------

# Remember something the reader of the result should know.
note() {
  quote "$1"
  c_notes="$c_notes${c_notes:+,}$c_quoted"
}

# Decide how the script is run: the words of the command in $c_interpreter and $c_interpreter_argument, a refusal in $c_refusal.
choose_interpreter() {
  c_refusal='' c_interpreter='' c_interpreter_argument='' c_first=''
  if [ ! -r "$MUSTER_SCRIPT" ]; then
    c_refusal="the script $MUSTER_SCRIPT cannot be read"
    return
  fi
  IFS= read -r c_first 2>/dev/null <"$MUSTER_SCRIPT"
  c_carriage=$(printf '\r')
  case $c_first in
    '#!'*"$c_carriage") c_refusal="the first line of the script ends with a carriage return: it was saved with CRLF line ends" ;;
  esac
  if [ -n "$MUSTER_INTERPRETER" ]; then
    c_refusal=
    set -- $MUSTER_INTERPRETER
    has "$1" || c_refusal="the interpreter $1 is not in the image"
    return
  fi
  case $c_first in
    '#!'*) split_first_line "${c_first#??}" ;;
    "$(printf '\177ELF')"*) ;;
    *) c_interpreter=/bin/sh ;;
  esac
}

# As the kernel does it: the rest of the line is one argument.
split_first_line() {
  c_words=$1
  while :; do
    case $c_words in
      ' '* | '	'*) c_words=${c_words#?} ;;
      *' ' | *'	') c_words=${c_words%?} ;;
      *) break ;;
    esac
  done
  c_interpreter=${c_words%%[ 	]*}
  c_interpreter_argument=${c_words#"$c_interpreter"}
  while :; do
    case $c_interpreter_argument in
      ' '* | '	'*) c_interpreter_argument=${c_interpreter_argument#?} ;;
      *) break ;;
    esac
  done
  if [ -z "$c_refusal" ] && [ ! -x "$c_interpreter" ]; then
    c_refusal="the interpreter $c_interpreter, which the first line of the script names, is not in the image"
  fi
}

# All values that must not be shown, one in a line, each also in base64; passwords in URLs count by themselves. What is too
# short to tell from any other text is left out.
secret_values() {
  for c_secret in $MUSTER_SECRET_VARIABLES; do
    eval "c_secret=\${$c_secret-}"
    printf '%s\n' "$c_secret" | values_of
  done
  printf '%s\n' "$MUSTER_SECRET_PATHS" | while IFS= read -r c_secret; do
    [ -n "$c_secret" ] || continue
    set +f
    for c_secret_file in "$c_secret" "$c_secret"/*; do
      [ ! -f "$c_secret_file" ] || values_of <"$c_secret_file"
    done
    set -f
  done
}

# The lines of a value, the passwords in them, and the value in base64.
values_of() {
  c_value=$(cat && printf x)
  c_value=${c_value%x}
  printf '%s\n' "$c_value"
  printf '%s\n' "$c_value" | sed -n 's|.*://[^/@[:space:]]*:\([^/@[:space:]]*\)@.*|\1|p'
  printf '%s\n' "$c_value" | while IFS= read -r c_value_line; do
    [ -z "$c_value_line" ] || printf '%s' "$c_value_line" | encode | tr -d '\n'
    printf '\n'
  done
  printf '%s' "$c_value" | encode | tr -d '\n'
  printf '\n'
}

# A program for sed that masks the values, in $c_masks; the longest come first. In memory where there is such a place.
write_masks() {
  c_masks=
  [ -n "$MUSTER_SECRET_VARIABLES$MUSTER_SECRET_PATHS" ] || return 0
  for c_program in sed sort; do
    has "$c_program" || c_lacking="$c_lacking $c_program"
  done
  if [ -n "$c_lacking" ]; then
    complain "the image lacks programs the collector needs to mask secrets:$c_lacking"
    rm -rf "$c_den"
    exit 125
  fi
  c_masks=$c_den/masks
  if [ -d /dev/shm ] && [ -w /dev/shm ]; then c_masks=/dev/shm/.collector.$$; fi
  (umask 077 && printf '' >"$c_masks") || exit 125
  secret_values | while IFS= read -r c_value; do
    [ "${#c_value}" -lt 6 ] || printf '%s %s\n' "${#c_value}" "$c_value"
  done | sort -u | sort -k 1,1nr | sed -e 's/^[0-9]* //' -e 's/[][\\/.*^$]/\\&/g' -e 's|.*|s/&/********/g|' >"$c_masks"
  c_unbuffered=
  ! sed -u '' </dev/null >/dev/null 2>&1 || c_unbuffered=-u
}

# Read from one pipe and keep the first and the last bytes of it and its length, whatever it carries: NAME.
# `tee` gives it to three readers, none of which ends early; so nothing that is written is ever refused.
keep() {
  if [ "$MUSTER_LIVE" = 1 ]; then
    { head -c "$c_half" | tee "$c_den/$1.head" >&3; cat >/dev/null; } <"$c_den/$1.to_head" 2>/dev/null &
  else
    { head -c "$c_half" >"$c_den/$1.head"; cat >/dev/null; } <"$c_den/$1.to_head" 2>/dev/null 3>&- &
  fi
  c_keepers="$c_keepers $!"
  tail -c "$c_half" <"$c_den/$1.to_tail" >"$c_den/$1.tail" 2>/dev/null 3>&- &
  c_keepers="$c_keepers $!"
  wc -c <"$c_den/$1.to_count" >"$c_den/$1.count" 2>/dev/null 3>&- &
  c_keepers="$c_keepers $!"
  c_keep_from=$1.pipe
  if [ -n "$c_masks" ]; then
    c_keep_from=$1.masked
    LC_ALL=C sed $c_unbuffered -f "$c_masks" <"$c_den/$1.pipe" >"$c_den/$1.masked" 2>/dev/null 3>&- &
    c_tees="$c_tees $!"
  fi
  tee "$c_den/$1.to_head" "$c_den/$1.to_count" <"$c_den/$c_keep_from" >"$c_den/$1.to_tail" 2>/dev/null 3>&- &
  c_tees="$c_tees $!"
}

# Run one command with its own times measured by python3, which can ask for everything the system counts: FACTS COMMAND...
# It writes six lines: exit code, signal, seconds, start, end, usage.
run_with_python() {
  # shellcheck disable=SC2016 # nothing in the program is for the shell
  exec python3 -IS -c '
import os, signal, sys, time
import resource
facts, grace, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
child = 0
stopping = False
def tell_group(number):
    for send in (os.killpg, os.kill):
        try:
            return send(child, number)
        except OSError:
            pass
def stop(number, frame):
    global stopping
    stopping = True
    if child:
        tell_group(signal.SIGTERM)
        signal.alarm(max(1, int(grace)))
def end(number, frame):
    tell_group(signal.SIGKILL)
signal.signal(signal.SIGALRM, end)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
if hasattr(signal, "SIGXFSZ"):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
with open(facts + ".started", "w"):
    pass
floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start, began = time.time(), time.monotonic()
child = os.fork()
if not child:
    try:
        os.setsid()
        os.execvp(command[0], command)
    except OSError as problem:
        os.write(2, ("collector: cannot run %s: %s\n" % (command[0], problem.strerror)).encode())
    os._exit(127)
if stopping or os.path.exists(os.path.join(os.path.dirname(facts), "stop")):
    stop(0, None)
used_pid, status, usage = os.wait4(child, 0)
wall, ended = time.monotonic() - began, time.time()
killed = os.WIFSIGNALED(status)
code = 128 + os.WTERMSIG(status) if killed else os.WEXITSTATUS(status)
rest = "ru_ixrss ru_idrss ru_isrss ru_nswap ru_inblock ru_oublock ru_msgsnd ru_msgrcv ru_nsignals ru_nvcsw ru_nivcsw"
parts = [
    "\"source\":\"getrusage\"",
    "\"user_seconds\":%.6f" % usage.ru_utime,
    "\"system_seconds\":%.6f" % usage.ru_stime,
    "\"minor_faults\":%d" % usage.ru_minflt,
    "\"major_faults\":%d" % usage.ru_majflt,
    "\"max_rss_bytes\":%s" % (usage.ru_maxrss * 1024 if usage.ru_maxrss > floor else "null"),
    "\"max_rss_floor_bytes\":%d" % (floor * 1024),
] + ["\"%s\":%d" % (name, getattr(usage, name)) for name in rest.split()]
with open(facts, "w") as stream:
    lines = [code, os.WTERMSIG(status) if killed else "", "%.6f" % wall, "%.6f" % start, "%.6f" % ended]
    stream.write("".join("%s\n" % line for line in lines) + "{" + ",".join(parts) + "}\n")
os._exit(code if code < 256 else 1)
' "$@"
}

# The times of waited-for children from /proc, in hundredths of seconds, and their page faults.
read_children() {
  c_child_minor='' c_child_major='' c_child_user='' c_child_system=''
  line_of /proc/self/stat || return 1
  set -- ${c_line##*) }
  c_child_minor=$9
  shift 9
  c_child_major=$2 c_child_user=$5 c_child_system=$6
}

# The same as run_with_python with the shell alone: times to a hundredth of a second, no further usage.
run_with_shell() {
  c_facts=$1 c_grace=$2 c_stopping=''
  shift 2
  trap 'c_stopping=1; c_signals=$((c_signals + 1)); stop_script' TERM
  read_clock
  c_start_ns=$c_now_ns c_start_ticks=$c_now_ticks
  read_children
  c_minor_before=$c_child_minor c_major_before=$c_child_major c_user_before=$c_child_user c_system_before=$c_child_system
  if has setsid; then
    c_grouped=1
    setsid "$@" &
  else
    c_grouped=
    "$@" &
  fi
  c_script_pid=$!
  # The signal may have come before the trap was set; then a file tells it.
  if [ -n "$c_stopping" ] || [ -e "$c_den/stop" ]; then stop_script; fi
  sample_memory "$c_script_pid" "$c_facts.peak" </dev/null >/dev/null 2>&1 &
  c_sampler_pid=$!
  wait_for "$c_script_pid"
  c_code=$c_waited
  read_children
  read_clock
  c_end_ns=$c_now_ns c_end_ticks=$c_now_ticks
  kill "$c_sampler_pid" 2>/dev/null
  [ -z "$c_stopper_pid" ] || kill "$c_stopper_pid" 2>/dev/null
  write_shell_facts
  exit "$c_code"
}

# Ask the script and all it started to stop, and end it when it does not.
stop_script() {
  [ -n "$c_script_pid" ] || return 0
  signal_script TERM
  {
    sleep "$c_grace"
    [ ! -e "$c_facts" ] && [ -d "${c_facts%/*}" ] && signal_script KILL
  } </dev/null >/dev/null 2>&1 3>&- &
  c_stopper_pid=$!
}

signal_script() {
  [ -n "$c_grouped" ] && kill -s "$1" -- "-$c_script_pid" 2>/dev/null && return
  kill -s "$1" "$c_script_pid" 2>/dev/null
}

# Look at a process and those it started from time to time, and keep the greatest resident size seen: PID FILE.
sample_memory() {
  trap - TERM
  c_sample_pid=$1 c_sample_file=$2 c_peak=0 c_pause=0.02 c_rounds=0
  while kill -0 "$c_sample_pid" 2>/dev/null; do
    set -- "$c_sample_pid"
    while [ $# -gt 0 ]; do
      look_at "$1"
      shift
      set -- "$@" $c_kids
    done
    c_rounds=$((c_rounds + 1))
    case $c_rounds in
      3) c_pause=0.1 ;;
      10) c_pause=1 ;;
    esac
    sleep "$c_pause" 2>/dev/null || sleep 1
  done
}

# Note the peak of one process; those it started in $c_kids.
look_at() {
  c_kids=
  line_of "/proc/$1/task/$1/children" && c_kids=$c_line
  [ -r "/proc/$1/status" ] || return 0
  while read -r c_key c_value c_unit; do
    if [ "$c_key" = VmHWM: ] && [ "$c_unit" = kB ] && [ "$c_value" -gt "$c_peak" ]; then
      c_peak=$c_value
      printf '%s\n' "$c_peak" >"$c_sample_file"
    fi
  done 2>/dev/null <"/proc/$1/status"
}

write_shell_facts() {
  c_signal=
  if [ "$c_code" -gt 128 ] && [ "$c_code" -le 192 ]; then c_signal=$((c_code - 128)); fi
  c_usage='"source":"proc"'
  decimal "$((c_child_user - c_user_before))" 2 && c_usage="$c_usage,\"user_seconds\":$c_decimal"
  decimal "$((c_child_system - c_system_before))" 2 && c_usage="$c_usage,\"system_seconds\":$c_decimal"
  c_usage="$c_usage,\"minor_faults\":$((c_child_minor - c_minor_before)),\"major_faults\":$((c_child_major - c_major_before))"
  c_number=null
  line_of "$c_facts.peak" && c_number=$((c_line * 1024))
  c_usage="$c_usage,\"max_rss_bytes\":$c_number"
  [ -n "$c_child_user" ] || c_usage='"source":null'
  {
    printf '%s\n%s\n' "$c_code" "$c_signal"
    elapsed
    printf '%s\n' "$c_decimal"
    decimal "$c_start_ns" 9
    printf '%s\n' "$c_decimal"
    decimal "$c_end_ns" 9
    printf '%s\n{%s}\n' "$c_decimal" "$c_usage"
  } >"$c_facts"
}

# Start the script, or say on its stderr why it cannot start: arguments of the script. Never returns.
become_script() {
  if [ -n "$MUSTER_WORKDIR" ] && ! cd "$MUSTER_WORKDIR" 2>/dev/null; then
    c_refusal="the directory $MUSTER_WORKDIR cannot be entered"
  fi
  if [ -n "$c_refusal" ]; then
    complain "$c_refusal"
    exit 127
  fi
  if [ -n "$MUSTER_INTERPRETER" ]; then
    set -- $MUSTER_INTERPRETER "$c_script" "$@"
  elif [ -n "$c_interpreter_argument" ]; then
    set -- "$c_interpreter" "$c_interpreter_argument" "$c_script" "$@"
  elif [ -n "$c_interpreter" ]; then
    set -- "$c_interpreter" "$c_script" "$@"
  else
    set -- "$c_script" "$@"
  fi
  if [ -n "$c_python" ]; then
    run_with_python "$c_den/facts" "$MUSTER_GRACE" "$@"
  else
    run_with_shell "$c_den/facts" "$MUSTER_GRACE" "$@"
  fi
}

# Wait for one process; its exit code in $c_waited. A trapped signal ends `wait` early, so it is asked again after one;
# when the process was gone already, the answer is 127 and the one before counts.
wait_for() {
  c_waited=''
  while :; do
    c_signals_before=$c_signals
    wait "$1" 2>/dev/null
    c_wait_answer=$?
    if [ "$c_wait_answer" != 127 ] || [ -z "$c_waited" ]; then c_waited=$c_wait_answer; fi
    [ "$c_signals" != "$c_signals_before" ] || break
  done
}

# Run the script once and leave what it did in files and variables: arguments of the script.
run_once() {
  c_keepers='' c_tees='' c_output_held=false
  c_run_number=$((c_run_number + 1))
  set +f
  rm -f "$c_den"/std* "$c_den"/facts* 2>/dev/null
  set -f
  mkfifo "$c_den/stdout.pipe" "$c_den/stdout.to_head" "$c_den/stdout.to_tail" "$c_den/stdout.to_count" \
    "$c_den/stderr.pipe" "$c_den/stderr.to_head" "$c_den/stderr.to_tail" "$c_den/stderr.to_count" \
    "$c_den/stdout.masked" "$c_den/stderr.masked" || return 1
  keep stdout
  keep stderr
  (become_script "$@") </dev/null >"$c_den/stdout.pipe" 2>"$c_den/stderr.pipe" 3>&- &
  c_runner=$!
  # A signal that came before the line above found nobody to be told; one that comes again is told again.
  [ -z "$c_terminated" ] || kill -s TERM "$c_runner" 2>/dev/null
  wait_for "$c_runner"
  c_runner=
  c_exit_code=$c_waited
  finish_output
  read_facts
}

# Processes the script left behind may hold its output open: what comes a second later is not waited for.
finish_output() {
  # A signal may be lost while a subshell starts, so that this one also looks whether it is still wanted.
  {
    c_nap=''
    trap 'kill $c_nap; exit' TERM
    sleep 1 &
    c_nap=$!
    wait "$c_nap"
    if [ -d "$c_den" ] && [ ! -e "$c_den/drained.$c_run_number" ]; then
      printf 'true\n' >"$c_den/held.$c_run_number"
      kill $c_tees
    fi
  } </dev/null >/dev/null 2>&1 3>&- &
  c_impatient=$!
  for c_keeper in $c_tees $c_keepers; do wait_for "$c_keeper"; done
  printf '' >"$c_den/drained.$c_run_number"
  kill "$c_impatient" 2>/dev/null
  [ ! -e "$c_den/held.$c_run_number" ] || c_output_held=true
}

# Read the six lines of the run.
read_facts() {
  c_exit_signal='' c_wall=null c_start=null c_end=null c_usage=null
  [ -r "$c_den/facts" ] || return 1
  {
    read -r c_exit_code
    read -r c_exit_signal
    read -r c_wall
    read -r c_start
    read -r c_end
    IFS= read -r c_usage
  } <"$c_den/facts"
}

# The script runs once more when python3 was there but could not even begin.
run_surely() {
  run_once "$@"
  if [ -n "$c_python" ] && [ ! -e "$c_den/facts.started" ] && [ -z "$c_refusal$c_terminated" ]; then
    c_python=
    note "python3 is in the image but does not work"
    run_once "$@"
  fi
}

# --- the result -----------------------------------------------------------------------------------------------------

# Base64 of a file in one line, as a JSON string.
print_bytes() {
  printf '"'
  [ ! -s "$1" ] || encode <"$1" | tr -d '\n'
  printf '"'
}

# One output stream: its length, its first and, when it is longer than that, its last bytes.
print_stream() {
  c_length=0
  [ -r "$c_den/$1.count" ] && read -r c_length <"$c_den/$1.count"
  is_number "$c_length" || c_length=0
  printf ',"%s":{"bytes":%s,"half":%s,"head":' "$1" "$c_length" "$c_half"
  print_bytes "$c_den/$1.head"
  printf ',"tail":'
  if [ "$c_length" -gt "$c_half" ]; then print_bytes "$c_den/$1.tail"; else printf '""'; fi
  printf '}'
}

# The whole result.
print_result() {
  number_or_null "$MUSTER_INDEX" && printf '{"version":1,"index":%s' "$c_number"
  number_or_null "$c_exit_code" && printf ',"exit_code":%s' "$c_number"
  number_or_null "$c_exit_signal" && printf ',"signal":%s' "$c_number"
  printf ',"terminated":%s,"output_held":%s' "${c_terminated:-false}" "$c_output_held"
  printf ',"wall_seconds":%s,"start":%s,"end":%s,"usage":%s' "$c_wall" "$c_start" "$c_end" "${c_usage:-null}"
  print_stream stdout
  print_stream stderr
  quote_or_null "$c_script_digest" && printf ',"script_sha256":%s' "$c_quoted"
  printf ',"warmup":{"runs":%s,"failures":[%s]}' "$c_warmup_done" "$c_warmup_failures"
  line_of "$MUSTER_PROC/sys/kernel/hostname" || c_line=$(uname -n 2>/dev/null)
  quote_or_null "$c_line" && printf ',"hostname":%s,"os_release":%s' "$c_quoted" "$c_os_release_json"
  quote_or_null "$MUSTER_POD_NAME" && printf ',"pod":{"name":%s' "$c_quoted"
  quote_or_null "$MUSTER_POD_UID" && printf ',"uid":%s' "$c_quoted"
  quote_or_null "$MUSTER_NODE_NAME" && printf ',"node":%s' "$c_quoted"
  number_or_null "$MUSTER_LIMIT_CPU" && printf ',"limit_cpu_milli":%s' "$c_number"
  number_or_null "$MUSTER_LIMIT_MEMORY" && printf ',"limit_memory_bytes":%s}' "$c_number"
  printf ',"notes":[%s],"hwinfo":%s,"pressure":{%s},"absent":{%s}}}' \
    "$c_notes" "$c_hwinfo_json" "$c_pressure_json" "$c_absent"
}

print_frame() {
  print_result >"$c_den/result"
  c_length=$(wc -c <"$c_den/result")
  digest_of "$c_den/result"
  [ "$MUSTER_LIVE" != 1 ] || printf '\n'
  printf -- '-----BEGIN MUSTER RESULT v1 %s %s-----\n' "$((c_length))" "${c_digest:--}"
  encode <"$c_den/result"
  printf -- '-----END MUSTER RESULT-----\n'
}

# The short answer for the status of the pod.
write_termination_log() {
  [ -f /dev/termination-log ] && [ -w /dev/termination-log ] || return 0
  quote_or_null "$c_script_digest"
  printf '{"exit_code":%s,"script_sha256":%s}\n' "$c_exit_code" "$c_quoted" 2>/dev/null >/dev/termination-log
}

# --- the course of things -------------------------------------------------------------------------------------------

# A private directory in $c_den, on the first place that can be written.
make_den() {
  for c_place in "$MUSTER_WORK" "$TMPDIR" /tmp /dev/shm; do
    [ -n "$c_place" ] && [ -d "$c_place" ] && [ -w "$c_place" ] || continue
    c_den=$c_place/.collector.$$
    mkdir -m 700 "$c_den" 2>/dev/null && return
  done
  complain "no directory can be written; tried MUSTER_WORK, TMPDIR, /tmp and /dev/shm"
  exit 125
}

check_programs() {
  for c_program in cat chmod cp head mkdir mkfifo rm sleep tail tee tr wc; do
    has "$c_program" || c_lacking="$c_lacking $c_program"
  done
  has base64 || has python3 || has od || c_lacking="$c_lacking base64"
  if [ -n "$c_lacking" ]; then
    complain "the image lacks programs the collector needs:$c_lacking"
    exit 125
  fi
}

# shellcheck disable=SC2329 # called by the trap
on_term() {
  c_terminated=true
  c_signals=$((c_signals + 1))
  [ -z "$c_den" ] || printf '' 2>/dev/null >"$c_den/stop"
  [ -z "$c_runner" ] || kill -s TERM "$c_runner" 2>/dev/null
}

# The number of this repetition when only some are run, by its position among them.
take_index() {
  c_position=$MUSTER_INDEX
  for c_index in $MUSTER_INDEXES; do
    [ "$c_position" != 0 ] || MUSTER_INDEX=$c_index
    c_position=$((c_position - 1))
  done
}

# Copy the script: a file from a ConfigMap has no permission to be executed.
take_script() {
  c_script=$c_den/script
  if [ -r "$MUSTER_SCRIPT" ]; then
    cp "$MUSTER_SCRIPT" "$c_script" && chmod 755 "$c_script" && digest_of "$c_script"
  fi
  c_script_digest=$c_digest
}

# The runs that do not count. One that fails is told, with the end of its stderr.
warm_up() {
  while [ "$c_warmup_done" -lt "$MUSTER_WARMUP" ] && [ -z "$c_terminated" ]; do
    run_surely "$@"
    c_warmup_done=$((c_warmup_done + 1))
    [ "$c_exit_code" != 0 ] || continue
    c_warmup_end=$(tail -c 1000 "$c_den/stderr.tail" 2>/dev/null | encode | tr -d '\n')
    c_warmup_failures="$c_warmup_failures${c_warmup_failures:+,}{\"run\":$c_warmup_done,\"exit_code\":${c_exit_code:-null},\"stderr\":\"$c_warmup_end\"}"
  done
}

main() {
  c_den='' c_terminated='' c_runner='' c_notes='' c_lacking='' c_clock_coarse='' c_digest='' c_script_pid='' c_stopper_pid='' c_python='' c_refusal='' c_run_number=0 c_signals=0
  c_exit_code='' c_exit_signal='' c_wall=null c_start=null c_end=null c_usage=null c_output_held=false c_warmup_done=0 c_warmup_failures=''
  trap on_term TERM
  check_programs
  make_den
  exec 3>&1
  : "${MUSTER_GRACE:=5}" "${MUSTER_INDEX:=0}" "${MUSTER_INDEXES:=}" "${MUSTER_PROC:=/proc}" "${MUSTER_SYS:=/sys}"
  : "${MUSTER_SECRET_VARIABLES:=}" "${MUSTER_SECRET_PATHS:=}"
  take_index
  is_number "$MUSTER_WARMUP" || MUSTER_WARMUP=0
  is_number "$MUSTER_OUTPUT_BYTES" && [ "$MUSTER_OUTPUT_BYTES" -ge 2 ] || MUSTER_OUTPUT_BYTES=65536
  : "${MUSTER_HWINFO:=${c_den%/*}/hwinfo.json}"
  export MUSTER_HWINFO MUSTER_INDEX
  c_half=$((MUSTER_OUTPUT_BYTES / 2))
  describe_hardware
  write_hardware
  take_script
  write_masks
  choose_interpreter
  ! has python3 || c_python=1
  warm_up "$@"
  c_absent=$c_hwinfo_absent
  remember_counters
  [ -n "$c_terminated" ] || run_surely "$@"
  read_counters
  describe_pressure
  [ -n "$c_exit_code" ] || c_exit_code=143
  print_frame
  write_termination_log
  rm -rf "$c_den" ${c_masks:+"$c_masks"} >/dev/null 2>&1
  exit "$c_exit_code"
}

main "$@"
