#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# docs.sh: render Documentation/ as HTML into build/docs.

set -euo pipefail
# shellcheck source=selftests/lanes/common.sh
. "$(dirname "$0")/common.sh"

main()
{
	local bin

	[ -e "$TOP/Documentation/conf.py" ] || die 'there is no Documentation/conf.py'
	ask_for_root
	"$LANES/deps.sh" docs
	bin=$(venv sphinx "sphinx==$SPHINX_VERSION" \
		"sphinx-rtd-theme==$SPHINX_RTD_THEME_VERSION")
	run_logged "$BUILD/docs.log" 'docs: rendering' '' \
		"$bin/sphinx-build" -W --keep-going -b html "$TOP/Documentation" \
		"$BUILD/docs"
	say "docs: $BUILD/docs/index.html"
}

main "$@"
