// Screenshots for looking at: node test/shoot.mjs OUT [REPORT.html]
// (without a report: the fixture). Light and dark, 1280 and 400 pixels.
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

import {launch} from './browser.mjs';
import {fill, fixture} from './fixture.mjs';

const [out = 'shots', given] = process.argv.slice(2);
mkdirSync(out, {recursive: true});
let page = given;
if (page === undefined) {
  page = `${out}/report.html`;
  const template = readFileSync(new URL('../dist/report.html',
                                        import.meta.url), 'utf8');
  writeFileSync(page, fill(template, fixture({layers: 12, heads: 12})));
}
const browser = await launch();
for (const width of [1280, 400]) {
  for (const colorScheme of ['light', 'dark']) {
    const tab = await browser.newPage({
      viewport: {width, height: 900}, colorScheme});
    await tab.goto(pathToFileURL(resolve(page)).href);
    await tab.screenshot({path: `${out}/${width}-${colorScheme}.png`,
                          fullPage: true});
    await tab.close();
  }
}
await browser.close();
