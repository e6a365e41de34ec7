# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

FROM debian
USER 0
COPY --chmod=0644 ["files/0002", "/etc/apt/apt.conf.d/90x"]
COPY ["files/install-native.sh", "files/native.txt", "files/secrets.sh", "files/secrets.txt", "/opt/muster/build/"]
RUN ["/bin/sh", "/opt/muster/build/install-native.sh", "auto", "no"]
COPY --chmod=0600 ["files/0001", "/etc/odd \\\"name\\\" \\$HOME \\'x\\' \\\\"]
COPY --chown=1000:1000 --chmod=0755 ["files/0003", "/bin/run"]

#= files/0002 0644
#| x

#= files/install-native.sh 0644

#= files/native.txt 0644
#| curl
#| 

#= files/secrets.sh 0644

#= files/secrets.txt 0644
#| 

#= files/0001 0600
#| quotes " ' ` $x
#| né ☃
#| 

#= files/0003 0755
#| #!/bin/sh
#| 
