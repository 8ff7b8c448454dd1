#!/usr/bin/env bash
# Sees to it that the tests of the web page have a browser: installs Debian's, if it can. Never fails: without one they are skipped.
set -euo pipefail

if { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null && command -v chromedriver >/dev/null; then
    exit
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "No browser was found: the tests of the web page are skipped (packages chromium and chromium-driver)." >&2
    exit
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
echo "A browser for the tests of the web page was not found; installing chromium with apt-get ..." >&2
export DEBIAN_FRONTEND=noninteractive
timeout 60 apt-get update >"$log" 2>&1 || true # a mirror that fails may not be the one with the browser
if ! timeout 240 apt-get install -y --no-install-recommends chromium chromium-driver >>"$log" 2>&1; then
    tail -n 5 "$log" >&2
    echo "The browser could not be installed: the tests of the web page are skipped." >&2
fi
