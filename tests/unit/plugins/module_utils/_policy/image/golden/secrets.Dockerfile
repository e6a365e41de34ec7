# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

FROM debian
USER 0
COPY ["files/install-native.sh", "files/native.txt", "files/secrets.sh", "files/secrets.txt", "/opt/muster/build/"]
RUN --mount=type=secret,id=proxy,required=true --mount=type=secret,id=ca.pem,required=true --mount=type=secret,id=apt,required=true ["/bin/sh", "/opt/muster/build/install-native.sh", "auto", "no"]
COPY ["files/indexes.txt", "files/install-python.sh", "files/python-versions.txt", "files/requirements-1-1.txt", "files/secrets.sh", "files/secrets.txt", "files/steps.txt", "/opt/muster/build/"]
RUN --mount=type=secret,id=proxy,required=true --mount=type=secret,id=ca.pem,required=true --mount=type=secret,id=pip,required=true ["/bin/sh", "/opt/muster/build/install-python.sh", "pip", "no", "no", "-"]
ENV VIRTUAL_ENV="/opt/muster/venv"
ENV PATH="/opt/muster/venv/bin:${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"

#= files/install-native.sh 0644

#= files/native.txt 0644
#| curl
#| 

#= files/secrets.sh 0644

#= files/secrets.txt 0644
#| environment proxy
#| ca ca.pem
#| native_config apt
#| pip_config pip
#| 

#= files/indexes.txt 0644
#| 

#= files/install-python.sh 0644

#= files/python-versions.txt 0644
#| 

#= files/requirements-1-1.txt 0644
#| six
#| 

#= files/steps.txt 0644
#| free - requirements-1-1.txt
#| 
