# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

FROM debian
ENV A="two words"
ENV B="\$HOME \\\$x \${y:-z}"
ENV C="\"'`#"
ENV D="\\"
ENV E=""
ENV F="né ☃	"
WORKDIR /work
LABEL org.example/text="a \"b\" \$c"
USER 1000
