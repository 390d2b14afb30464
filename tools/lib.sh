# Shared by ./ductile, tools/* and .ci/run, which set $root first. POSIX sh.

lock=$root/build/lock

say() { printf 'ductile: %s\n' "$*" >&2; }

fail() {
  say "$*"
  exit 1
}

# Installs and builds the tree if necessary.
prepare() {
  if is_installed && is_built; then return; fi
  take_lock
  is_installed || install
  is_built || build
  release_lock
}

prepare_dependencies() {
  if is_installed; then return; fi
  take_lock
  is_installed || install
  release_lock
}

# npm writes its own copy of the lock file last, so an incomplete install has none.
is_installed() {
  [ -f "$root/node_modules/.package-lock.json" ] || return 1
  ! [ "$root/package-lock.json" -nt "$root/node_modules/.package-lock.json" ]
}

# The stamp has the time of the build's start. Folders are compared, too, to notice deleted files.
is_built() {
  [ -f "$root/dist/.stamp" ] || return 1
  newer=$(
    cd "$root" &&
      find src extras native web tools/build.ts tools/build-ui.ts tools/compile-spawner.ts package-lock.json \
        -newer dist/.stamp 2>/dev/null |
      head -n 1
  )
  [ -z "$newer" ]
}

# Builds the documentation site if a page is newer. The first start of the program does without it.
prepare_docs() {
  if is_docs_built; then return; fi
  take_lock
  is_docs_built || build_docs
  release_lock
}

is_docs_built() {
  [ -f "$root/dist/.docs-stamp" ] && [ -f "$root/dist/docs/site.br" ] || return 1
  newer=$(
    cd "$root" &&
      find docs tools/site tools/build-docs.ts web/icon.svg package-lock.json \
        -newer dist/.docs-stamp ! -path 'docs/.vitepress/.temp*' ! -path docs/.vitepress 2>/dev/null |
      head -n 1
  )
  [ -z "$newer" ]
}

build_docs() {
  say 'building the documentation…'
  find_node
  run_quietly "$root/build/docs.log" "$node" "$root/tools/build-docs.ts" ||
    fail 'building the documentation failed'
}

install() {
  say 'installing dependencies (once)…'
  command -v npm >/dev/null || fail 'npm was not found; install Node.js with npm, then run this again'
  run_quietly "$root/build/install.log" install_from_lock ||
    fail 'installing the dependencies failed (npm ci)'
  # Fall back to the system's Node if the prebuilt one can't run here (another libc).
  "$root/node_modules/.bin/node" --version >/dev/null 2>&1 || rm -f "$root/node_modules/.bin/node"
}

install_from_lock() (
  cd "$root" || exit 1
  # npm replaces the Node in node_modules, so it must not run on that Node.
  PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v '/node_modules/\.bin/*$' | paste -s -d : -)
  # Without these flags, a production environment would leave out what the build needs.
  npm ci --include=dev --include=optional
)

build() {
  say 'building…'
  find_node
  run_quietly "$root/build/build.log" "$node" "$root/tools/build.ts" || fail 'the build failed'
}

# Sets $node to the project's Node, or else to the system's if it is new enough.
find_node() {
  node=$root/node_modules/.bin/node
  if [ -x "$node" ]; then return; fi
  node=$(command -v node) || fail 'Node.js was not found; install it, then run this again'
  "$node" "$root/bin/floor.cjs" || exit 1
}

run_quietly() {
  output=$1
  shift
  "$@" >"$output" 2>&1 && return
  cat "$output" >&2
  return 1
}

# True if these arguments of vitest include tests of the dashboard or the documentation site.
wants_browser() {
  named=
  for argument in "$@"; do
    case $argument in
    -*) ;;
    test | test/ui* | ui* | test/site* | site*) return 0 ;;
    *) named=yes ;;
    esac
  done
  [ -z "$named" ]
}

# True if these arguments of vitest include tests of the documentation site.
wants_docs() {
  named=
  for argument in "$@"; do
    case $argument in
    -*) ;;
    test | test/site* | site*) return 0 ;;
    *) named=yes ;;
    esac
  done
  [ -z "$named" ]
}

# Installs a browser for the tests of the dashboard, if possible.
bring_browser() {
  for browser in /usr/bin/chromium /usr/bin/chromium-browser /usr/bin/google-chrome; do
    if [ -x "$browser" ]; then return; fi
  done
  order='apt-get install -y --no-install-recommends chromium'
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    say 'installing Chromium for the tests of the dashboard (once)…'
    mkdir -p "$root/build"
    run_quietly "$root/build/browser.log" install_browser && return
  fi
  fail "the tests of the dashboard need Chromium: $order"
}

install_browser() { apt-get update && DEBIAN_FRONTEND=noninteractive $order; }

# Prints the directory for temporary files of tests: in memory if there is enough of it
# and programs may be run there.
pick_memory() {
  free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
  if [ "${free:-0}" -gt 4000000 ] && runs_programs /dev/shm; then
    printf /dev/shm
  else
    printf %s "${TMPDIR:-/tmp}"
  fi
}

runs_programs() {
  probe=$(mktemp "$1/ductile-XXXXXX" 2>/dev/null) || return 1
  printf '#!/bin/sh\n' >"$probe"
  chmod 700 "$probe"
  "$probe" 2>/dev/null && runs=0 || runs=1
  rm -f "$probe"
  return $runs
}

# run_step NAME COMMAND…: runs the command and prints how long it took.
run_step() {
  step=$1
  shift
  began=$(date +%s)
  printf '== %s\n' "$step"
  "$@"
  printf '== %s: %s s\n' "$step" "$(($(date +%s) - began))"
}

# One process at a time installs or builds. A symbolic link appears at once with its content, so
# there is never a lock without the process id of its owner.
take_lock() {
  mkdir -p "$root/build"
  [ -w "$root/build" ] || fail "cannot write to $root/build"
  announced=
  until ln -s "pid-$$" "$lock" 2>/dev/null; do
    owner=$(read_owner)
    if [ -n "$owner" ] && ! is_alive "$owner"; then
      break_lock "$owner"
      continue
    fi
    [ -n "$announced" ] || say "waiting for process ${owner:-?}, which installs or builds ($lock)"
    announced=yes
    sleep 1
  done
  trap release_lock EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

release_lock() {
  rm -f "$lock"
  trap - EXIT INT TERM HUP
}

read_owner() { readlink "$lock" 2>/dev/null | sed 's/^pid-//'; }

is_alive() { kill -0 "$1" 2>/dev/null || [ -d "/proc/$1" ]; }

# Of several that found the same dead owner only one may remove its lock, and only while it is still
# that owner's; otherwise the second would remove the lock that the first has just taken.
break_lock() {
  if mkdir "$lock.breaking" 2>/dev/null; then
    [ "$(read_owner)" != "$1" ] || rm -f "$lock"
    rmdir "$lock.breaking"
  else
    sleep 1
  fi
}
