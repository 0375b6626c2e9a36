# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The shell of tests/demo --shell: the link is up, rblkd serves /dev/vda, and the screen shows what
# to try.
. "$LAB/guest.sh"
lab_link_up
lab_rblkd_start /dev/vda
export PATH=$LAB_BUILD/initiator/cmd:$LAB_BUILD/target:$PATH
export VOLUME=$LAB_URI/vda ENGINE=external:$RBLK_FIO_ENGINE
export RBLK_FIO_SIZE=256m RBLK_FIO_RUNTIME=5
export PS1='lab# '
cd "$LAB/../../fio-jobs" || exit 1
cat << TEXT

rblkd serves /dev/vda as $VOLUME. Nothing you do here lasts. Try:

  rblk list $LAB_URI
  rblk info \$VOLUME
  rblk ping $LAB_URI
  rblk doctor
  rblk copy /bin/bash \$VOLUME
  fio --ioengine=\$ENGINE --rblk_uri=\$VOLUME verify.fio
  fio --ioengine=\$ENGINE --rblk_uri=\$VOLUME latency.fio
  tail $LAB_RBLKD_LOG
  exit

TEXT
bash --norc -i
lab_rblkd_stop
