# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

FROM debian
USER 0
COPY ["files/indexes.txt", "files/install-python.sh", "files/python-versions.txt", "files/requirements-1-1.txt", "files/requirements-2-1.txt", "files/secrets.sh", "files/secrets.txt", "files/steps.txt", "/opt/muster/build/"]
RUN ["/bin/sh", "/opt/muster/build/install-python.sh", "pip", "no", "no", "-"]
ENV VIRTUAL_ENV="/opt/muster/venv"
ENV PATH="/opt/muster/venv/bin:${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"

#= files/indexes.txt 0644
#| 

#= files/install-python.sh 0644

#= files/python-versions.txt 0644
#| 

#= files/requirements-1-1.txt 0644
#| six==1 --hash=sha256:aa
#| 

#= files/requirements-2-1.txt 0644
#| attrs
#| 

#= files/secrets.sh 0644

#= files/secrets.txt 0644
#| 

#= files/steps.txt 0644
#| free - requirements-1-1.txt
#| free - requirements-2-1.txt
#| 
