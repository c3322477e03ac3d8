// Chromium as the machine has it; playwright-core brings none of its own.
import {existsSync} from 'node:fs';

import {chromium} from 'playwright-core';

export const path = [process.env.CHROMIUM, '/usr/bin/chromium',
  '/usr/bin/chromium-browser', '/usr/bin/google-chrome',
].find((one) => one && existsSync(one));

export function launch() {
  return chromium.launch({
    executablePath: path,
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic',
      '--disable-background-networking', '--disable-component-update',
      '--disable-sync', '--no-first-run'],
  });
}
