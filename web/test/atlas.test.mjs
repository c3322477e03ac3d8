// The page of an atlas in headless Chromium, opened from disk: on one made by
// rule with ten thousand heads and hostile words and, where HEADWISE_ATLAS names
// a folder, on a real one. HEADWISE_ATLAS_PAGE: the built template.
import assert from 'node:assert/strict';
import {cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync}
  from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {pathToFileURL} from 'node:url';

import {launch, path as chromium} from './browser.mjs';
import {contrasts} from './contrast.mjs';
import {fixture} from './fixture.mjs';

const template = readFileSync(process.env.HEADWISE_ATLAS_PAGE ??
  new URL('../dist/atlas.html', import.meta.url), 'utf8');
const real = process.env.HEADWISE_ATLAS;
const skip = chromium === undefined && 'no Chromium here';
const folder = mkdtempSync(join(tmpdir(), 'headwise-atlas-'));
let browser;
before(async () => { if (!skip) browser = await launch(); });
after(async () => {
  await browser?.close();
  rmSync(folder, {recursive: true});
});

const hostile = '</script><img src=x onerror=alert(1)>';
const columns = ['self_attention_score', 'prev_token_score', 'pattern_entropy',
  'qk_distance', 'qk_distance_variance', 'induction_score'];

// The heads of a report made by rule, again and again.
function entryOf(head, i) {
  return {
    id: `${Math.floor(i / 100)}.${i % 100}`,
    file: `L${Math.floor(i / 100)}H${i % 100}`,
    roles: head.roles.map((role) => role.name),
    values: columns.map((_, c) => ((i * 7919 + c * 104729) % 10007) / 10007),
    importance: head.importance,
  };
}

function headFile(head) {
  const tokens = [hostile, ' the', ' cat', '\u202e sat', ' ', '\n'];
  const n = tokens.length;
  const map = (interval, strength) => ({
    number: interval, interval, strength, tokens,
    places: [0, n, n + 1, 2 * n + 1, 5 * n + 2],
    shares: [1000, 300, 700, 900, 400],
  });
  return {
    head, metrics: [0.1, 0.2, 1.5, 12, 1234.5, null],
    strengths: Array.from({length: 50}, (_, i) => i % 7),
    mean_strength: 0.4,
    query_tokens: [{token: hostile, share: 0.4}],
    key_tokens: [{token: ' the', share: 0.5}],
    sequences: [map(10, 0.9), map(3, 0.2)],
    matches: [{token: hostile, top: [{token: ' the', logit: 2}]}],
  };
}

let made = 0;
function write(count) {
  const out = join(folder, String(++made));
  mkdirSync(join(out, 'heads'), {recursive: true});
  const report = fixture();
  const known = report.heads;
  report.model.name = hostile;
  const heads = Array.from({length: count},
    (_, i) => entryOf(known[i % known.length], i));
  const index = {
    format: 'headwise.atlas/1', report: {...report, heads: []},
    sequences: 4000, tokens: 500000, kept: 700, intervals: 10, keys: 8,
    least: 0.005, columns: columns.map((name) => ({name, words: name})), heads,
  };
  const script = (name, value) =>
    `${name}(${JSON.stringify(value).replace(/</g, '\\u003c')});\n`;
  writeFileSync(join(out, 'index.html'), template);
  writeFileSync(join(out, 'atlas.js'), script('headwiseAtlas', index));
  heads.slice(0, 200).forEach((entry, i) => writeFileSync(
    join(out, 'heads', `${entry.file}.js`),
    script('headwiseHead', headFile({...known[i % known.length],
                                     id: entry.id}))));
  return out;
}

async function open(path, {hash = '', ...options} = {}) {
  const page = await browser.newPage({
    viewport: {width: 1400, height: 900}, ...options});
  const trouble = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) {
      trouble.push(message.text());
    }
  });
  page.on('pageerror', (error) => trouble.push(error.message));
  page.on('dialog', (dialog) => {
    trouble.push(`dialog ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!/^(file|data):/.test(request.url())) trouble.push(request.url());
  });
  await page.goto(pathToFileURL(join(path, 'index.html')).href + hash);
  await page.waitForSelector('.card');
  return {page, trouble};
}

const title = (page) => page.textContent('#card-title');
const shown = (page) => page.$$eval('.atlas-row strong',
  (all) => all.map((one) => one.textContent));

test('ten thousand heads are searched within 100 ms', {skip}, async () => {
  const {page, trouble} = await open(write(10000));
  assert.match(await page.textContent('.atlas-index [role=status]'),
    /10 000 of 10 000/);
  assert.ok((await page.$$('.atlas-row')).length < 100);
  const took = [];
  for (const query of ['i', 'ind', 'induction', 'induction qk_d<.3', 'x',
    '42.', '', 'layer>50 pattern>.5', 'no role', 'induction_score>.99']) {
    took.push(await page.evaluate((text) => {
      const search = document.getElementById('search');
      search.value = text;
      const begin = performance.now();
      search.dispatchEvent(new Event('input'));
      document.body.getBoundingClientRect(); // laid out, too
      return performance.now() - begin;
    }, query));
  }
  await page.selectOption('#by', 'qk_distance');
  console.log(`# search of 10 000 heads: ${took.map((ms) =>
    ms.toFixed(1)).join(', ')} ms`);
  assert.ok(Math.max(...took) < 100, took.join(', '));
  assert.deepEqual(trouble, []);
  await page.close();
});

test('search, roles, order and addresses lead to heads', {skip}, async () => {
  const {page, trouble} = await open(write(200), {hash: '#1.20'});
  assert.equal(await title(page), 'Head 1.20');
  await page.fill('#search', 'layer=1 head<3');
  assert.deepEqual(await shown(page), ['1.0', '1.1', '1.2']);
  await page.fill('#search', 'nonsense>3');
  assert.match(await page.textContent('.atlas-index [role=status]'),
    /No number is called like “nonsense>3”/);
  await page.fill('#search', '');
  await page.selectOption('#by', 'qk_distance');
  await page.click('.atlas-sort button');
  const values = await page.$$eval('.atlas-row .amount',
    (all) => all.map((one) => Number(one.textContent)));
  assert.deepEqual(values, [...values].sort((a, b) => b - a));
  const role = await page.$eval('#role', (one) => one.options[1].value);
  await page.selectOption('#role', role);
  const chips = await page.$$eval('.atlas-row .chip',
    (all) => all.map((one) => one.textContent));
  assert.ok(chips.length > 0);
  await page.click('.atlas-row >> nth=2');
  const id = (await shown(page))[2];
  await page.waitForFunction((want) =>
    document.getElementById('card-title').textContent === `Head ${want}`, id);
  assert.equal(new URL(page.url()).hash, `#${id}`);
  assert.deepEqual(trouble, []);
  await page.close();
});

test('the keyboard alone reaches every head', {skip}, async () => {
  const {page, trouble} = await open(write(200));
  await page.keyboard.press('/');
  await page.keyboard.type('layer=0');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.waitForFunction(() =>
    document.getElementById('card-title').textContent === 'Head 0.1');
  await page.keyboard.press('End');
  await page.waitForFunction(() =>
    document.getElementById('card-title').textContent === 'Head 0.99');
  assert.equal(await page.$eval('.atlas-list', (list) =>
    document.getElementById(list.getAttribute('aria-activedescendant'))
      .querySelector('strong').textContent), '0.99');
  await page.keyboard.press('k');
  await page.waitForFunction(() =>
    document.getElementById('card-title').textContent === 'Head 0.98');
  assert.deepEqual(trouble, []);
  await page.close();
});

test('hostile words are text, and tokens tell what they read', {skip},
  async () => {
    const {page, trouble} = await open(write(10));
    assert.equal(await page.textContent('h1'), hostile);
    assert.equal((await page.$$('main img')).length, 0);
    const words = await page.$$('.atlas-text >> nth=0 >> .word-token');
    assert.equal(await words[0].textContent(), hostile);
    assert.equal(await words[5].textContent(), '⏎');
    await words[2].click();
    assert.match(await page.textContent('.atlas-text [role=status]'),
      /“cat” \(token 2\) reads “the” 90 %; kept are 90 % of its attention/);
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('Enter');
    assert.match(await page.textContent('.atlas-text [role=status]'),
      /“the” \(token 1\) reads “the” 70 %/);
    await page.check('input[name=interval][value="3"]');
    assert.match(await page.textContent('.atlas-text .figure-title'),
      /Sequence 3, largest attention \.20/);
    assert.deepEqual(trouble, []);
    await page.close();
  });

test('a head whose file is gone says so', {skip}, async () => {
  const out = write(10);
  rmSync(join(out, 'heads', 'L0H3.js'));
  const {page} = await open(out);
  await page.click('.atlas-row >> nth=3');
  await page.waitForSelector('.panel .absent');
  assert.match(await page.textContent('.panel .absent'),
    /heads\/L0H3\.js cannot be read/);
  await page.close();
});

for (const width of [1400, 390]) {
  for (const colorScheme of ['light', 'dark']) {
    test(`${width} px, ${colorScheme}: nothing overflows, all is readable`,
      {skip}, async () => {
        const {page, trouble} = await open(write(200),
          {viewport: {width, height: 900}, colorScheme});
        assert.equal(await page.evaluate(() =>
          document.documentElement.scrollWidth - innerWidth), 0);
        assert.deepEqual(await page.evaluate(contrasts), []);
        assert.deepEqual(trouble, []);
        await page.close();
      });
  }
}

const noReal = real === undefined && 'HEADWISE_ATLAS is not set';
test('a real atlas opens, every head of it', {skip: skip || noReal},
  async () => {
    const out = join(folder, 'real');
    cpSync(real, out, {recursive: true});
    const {page, trouble} = await open(out);
    const heads = Number((await page.textContent(
      '.atlas-index [role=status]')).split(' ')[0]);
    let last = '';
    for (let i = 0; i < heads; ++i) {
      await page.waitForFunction(
        (old) => document.getElementById('card-title').textContent !== old,
        last);
      last = await title(page);
      assert.ok((await page.$$('.word-token')).length > 20, last);
      await page.keyboard.press('j');
    }
    assert.match(last, /Head \d+\.\d+/);
    assert.deepEqual(trouble, []);
    await page.close();
  });
