# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

FROM debian
USER 0
COPY ["files/install-native.sh", "files/native.txt", "files/secrets.sh", "files/secrets.txt", "/opt/muster/build/"]
RUN ["/bin/sh", "/opt/muster/build/install-native.sh", "apt", "yes"]

#= files/install-native.sh 0644

#= files/native.txt 0644
#| curl
#| git=1:2.47
#| 

#= files/secrets.sh 0644

#= files/secrets.txt 0644
#| 
