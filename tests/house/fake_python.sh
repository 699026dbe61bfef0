#!/bin/sh
# A Python that only says that it was called; what the start script itself computes is real.
case "$1" in
-V) echo "Python ${FAKE_VERSION:-3.11.7}" && exit ;;
-c | - | scripts/pack.py) exec "$FAKE_REAL" -SE "$@" ;;
esac
exec "$FAKE_REAL" -SE "$FAKE_TOOL" python "$@"
