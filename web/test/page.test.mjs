// The page in headless Chromium, opened from disk: on a report made by rule
// (fixture.mjs) and, where HEADWISE_REPORT names a folder with report.html and
// report.json, on a real one. HEADWISE_PAGE: the built template.
import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {pathToFileURL} from 'node:url';

import Ajv from 'ajv';

import {launch, path as chromium} from './browser.mjs';
import {contrasts} from './contrast.mjs';
import {fill, fixture} from './fixture.mjs';

const here = (name) => new URL(name, import.meta.url);
const template = readFileSync(
  process.env.HEADWISE_PAGE ?? here('../dist/report.html'), 'utf8');
const schema = JSON.parse(readFileSync(
  process.env.HEADWISE_SCHEMA ?? here('../../docs/report.schema.json')));
const validate = new Ajv({strict: false}).compile(schema);
const real = process.env.HEADWISE_REPORT;

const skip = chromium === undefined && 'no Chromium here';
const folder = mkdtempSync(join(tmpdir(), 'headwise-page-'));
let browser;
before(async () => { if (!skip) browser = await launch(); });
after(async () => {
  await browser?.close();
  rmSync(folder, {recursive: true});
});

let pages = 0;
// Opens a report (an object, or a file) and keeps what went wrong.
async function open(report, options = {}) {
  let file = report;
  if (typeof report !== 'string') {
    file = join(folder, `report-${++pages}.html`);
    writeFileSync(file, fill(template, report));
  }
  const page = await browser.newPage({
    viewport: {width: 1280, height: 900}, ...options});
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
  const address = pathToFileURL(file).href;
  page.on('requestfinished', (request) => {
    if (request.url().startsWith('file:') &&
        request.url().split('#')[0] !== address) trouble.push(request.url());
  });
  await page.goto(address);
  return {page, trouble};
}

const focused = (page) => page.evaluate(() => {
  const at = document.activeElement;
  return at === null || at === document.body ? ''
    : at.getAttribute('aria-label') || at.textContent.trim();
});

test('whether heads hurt is answered, or why it is not', {skip}, async () => {
  const told = async (hurting, negative) => {
    const report = fixture();
    Object.assign(report.importance, {hurting, negative});
    assert.ok(validate(report), JSON.stringify(validate.errors));
    const {page} = await open(report);
    const tiles = await page.$$eval('.tiles .tile',
      (all) => all.map((one) => one.textContent));
    await page.close();
    return tiles.filter((text) => /hurt/.test(text));
  };
  assert.match((await told({answer: 'none'}, []))[0], /0$/);
  assert.match((await told({answer: 'none', predictions: 4096,
    smallest_seen: 0.0021}, []))[0], /4.?096 predictions.*0\.0021 from 0/);
  assert.match((await told({answer: 'some'}, ['1.2']))[0], /1$/);
  assert.match((await told({answer: 'not-tested', reason: 'too short'}, []))[0],
    /too short.*not tested$/);
  assert.match((await told({answer: 'not-testable', reason: 'base 0'}, []))[0],
    /base 0.*not testable$/);
});

test('a whole report opens without error or request', {skip}, async () => {
  const report = fixture({layers: 12, heads: 12});
  const {page, trouble} = await open(report);
  assert.match(await page.title(), /made-by-rule/);
  const levels = await page.$$eval('h1, h2, h3, h4',
    (all) => all.map((one) => Number(one.tagName[1])));
  assert.equal(levels.filter((level) => level === 1).length, 1);
  levels.reduce((previous, level) => {
    assert.ok(level <= previous + 1, `h${previous} then h${level}`);
    return level;
  }, 0);
  assert.equal(await page.$$eval('.cell', (all) => all.length), 144);
  assert.ok(fill(template, report).length <= 3e6);
  assert.deepEqual(trouble, []);
});

test('roles are told in the words of the report', {skip}, async () => {
  const report = fixture();
  const role = {name: 'syntactic(nsubj)', score: 0.8};
  report.heads.forEach((head) => { head.roles = [role]; });
  report.roles.kinds = {syntactic: {word: 'gram', sign: 'Gr',
    family: 'language', says: 'follows the grammar'}};
  assert.ok(validate(report), JSON.stringify(validate.errors));
  const {page} = await open(report);
  assert.match(await page.textContent('.cell .word'), /^gram/);
  assert.equal(await page.textContent('.cell .sign'), 'Gr');
  assert.match(await page.textContent('.gist'), /follows the grammar/);
  assert.equal(await page.getAttribute('.cell', 'data-family'), 'language');
});

test('nothing is wider than the window', {skip}, async () => {
  for (const width of [1280, 400]) {
    const {page} = await open(fixture({layers: 12, heads: 12}),
      {viewport: {width, height: 900}});
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${wide} > ${width}`);
  }
});

test('text has contrast in light and dark', {skip}, async () => {
  for (const colorScheme of ['light', 'dark']) {
    const {page} = await open(fixture(), {colorScheme});
    for (const value of ['role', 'importance']) {
      await page.check(`input[name=colour][value=${value}]`, {force: true});
      const weak = await page.evaluate(contrasts);
      assert.deepEqual(weak, [], `${colorScheme}, by ${value}`);
    }
  }
});

test('Tab reaches every control', {skip}, async () => {
  const {page} = await open(fixture());
  const wanted = await page.evaluate(() => {
    const shown = (one) => one.checkVisibility();
    let next = 0;
    const stops = [];
    for (const one of document.querySelectorAll(
      'a[href], button:enabled, input, summary, [tabindex]')) {
      if (!shown(one) || one.tabIndex < 0) continue;
      // Of radio buttons the checked one is the stop.
      if (one.type === 'radio' && !one.checked) continue;
      one.dataset.stop = String(next++);
      stops.push(one.dataset.stop);
    }
    return stops;
  });
  const seen = new Set();
  for (let i = 0; i < wanted.length + 20; ++i) {
    await page.keyboard.press('Tab');
    const {stop, outline} = await page.evaluate(() => {
      const at = document.activeElement;
      const label = at.type === 'radio' ? at.nextElementSibling : at;
      return {stop: at.dataset?.stop,
              outline: getComputedStyle(label).outlineStyle};
    });
    if (stop === undefined) continue;
    seen.add(stop);
    assert.notEqual(outline, 'none', `focus is seen on ${await focused(page)}`);
  }
  // Moving through the grid changes the card, and with it what can be reached:
  // stops that are gone do not count.
  const left = await page.evaluate((all) => all.filter((stop) =>
    document.querySelector(`[data-stop="${stop}"]`) !== null),
  wanted.filter((stop) => !seen.has(stop)));
  assert.deepEqual(left, []);
});

test('the grid is walked with arrow keys', {skip}, async () => {
  const {page} = await open(fixture());
  const title = () => page.textContent('#card-title');
  await page.focus('.cell[data-head="0.0"]');
  assert.equal(await title(), 'Head 0.0');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  assert.equal(await title(), 'Head 1.1');
  await page.keyboard.press('End');
  assert.equal(await title(), 'Head 5.7');
  await page.keyboard.press('ArrowDown');
  assert.equal(await title(), 'Head 5.7');
  assert.equal(await page.$$eval('.cell[tabindex="0"]', (all) => all.length), 1);
  assert.equal(
    await page.getAttribute('.cell[data-head="5.7"]', 'aria-selected'), 'true');
});

test('switches work from the keyboard', {skip}, async () => {
  const {page, trouble} = await open(fixture(), {colorScheme: 'dark'});
  const theme = () => page.evaluate(
    () => document.documentElement.dataset.theme);
  assert.equal(await theme(), 'dark');
  await page.focus('button.theme');
  await page.keyboard.press('Enter');
  assert.equal(await theme(), 'light');
  await page.focus('input[name=colour]:checked');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.getAttribute('.grids', 'data-colour'), 'importance');
  await page.focus('input[name=view]:checked');
  await page.keyboard.press('ArrowRight');
  assert.ok(await page.$('.overview .heat'));
  await page.focus('.running button');
  await page.keyboard.press('End');
  assert.equal(await page.$$eval('.running button[aria-pressed="true"]',
    (all) => all.length), 1);
  await page.focus('.key');
  await page.keyboard.press('Space');
  assert.ok(await page.$('.cell[data-dim]'));
  await page.focus('.slider input');
  await page.keyboard.press('Home');
  assert.equal(await page.$$eval('#composition path.edge',
    (all) => all.length), 1);
  for (const mark of ['.point[tabindex="0"]', '.node[tabindex="0"]']) {
    await page.focus(mark);
    await page.keyboard.press('ArrowRight');
    const name = (await focused(page)).split(',')[0];
    await page.keyboard.press('Enter');
    assert.equal(await page.textContent('#card-title'), name);
  }
  assert.deepEqual(trouble, []);
});

const scrolled = (page) => page.evaluate(() => scrollY);

test('a press in a drawing shows the head where the reader is', {skip},
  async () => {
    const {page, trouble} = await open(fixture());
    for (const mark of ['#importance .bar', '#similarity .point',
                        '#composition .node']) {
      const one = page.locator(mark).nth(5);
      await one.evaluate((mark) => mark.scrollIntoView({block: 'center'}));
      const before = await one.boundingBox();
      const id = await one.getAttribute('data-head');
      assert.equal(await one.locator('text').textContent(), id);
      assert.ok(await one.locator('text').isVisible(), `${mark} has a name`);
      const body = await one.locator('path, circle, .hit').boundingBox();
      await page.mouse.click(body.x + body.width / 2, body.y + body.height / 2);
      // The card above may have grown: what counts is where the mark is seen.
      const after = await one.boundingBox();
      assert.ok(Math.abs(after.y - before.y) < 20, `${mark} moved away`);
      assert.equal(await page.textContent('#card-title'), `Head ${id}`);
      assert.equal(await page.textContent('.peek-name'), `Head ${id}`);
      assert.ok(await page.isVisible('.peek'));
      assert.match(await one.getAttribute('class'), /chosen/);
    }
    const before = await scrolled(page);
    await page.click('.peek a');
    assert.ok(await page.locator('#card-title').isVisible());
    assert.ok(await scrolled(page) < before - 500);
    await page.waitForSelector('.peek', {state: 'hidden'});
    await page.goBack();
    await page.waitForFunction((y) => Math.abs(scrollY - y) < 20, before);
    assert.deepEqual(trouble, []);
  });

test('the address names the head', {skip}, async () => {
  const report = fixture();
  const {page, trouble} = await open(report);
  await page.focus('.cell[data-head="3.5"]');
  await page.waitForFunction(() => location.hash === '#head-3.5');
  assert.equal(await page.getAttribute('.permalink', 'href'), '#head-3.5');
  const shared = await browser.newPage({viewport: {width: 420, height: 800}});
  await shared.goto(page.url());
  assert.equal(await shared.textContent('#card-title'), 'Head 3.5');
  const top = await shared.locator('#card-title').boundingBox();
  assert.ok(top.y > 0 && top.y < 400, `the card is in the window: ${top.y}`);
  await shared.evaluate(() => { location.hash = '#head-1.2'; });
  await shared.waitForFunction(() => document.querySelector('#card-title')
    .textContent === 'Head 1.2');
  await shared.evaluate(() => { location.hash = '#head-%'; });
  assert.equal(await shared.textContent('#card-title'), 'Head 1.2');
  assert.deepEqual(trouble, []);
});

test('the table is put in order by its headings', {skip}, async () => {
  const report = fixture();
  const {page} = await open(report);
  await page.click('#table summary');
  const column = (at) => page.$$eval('#table tbody tr', (rows, i) =>
    rows.map((row) => row.children[i].textContent), at);
  const heads = report.heads.map((head) => head.id);
  assert.deepEqual(await column(0), heads);
  const value = (head) => head.importance.values['ablation-mean'].value;
  const byValue = [...report.heads].sort((a, b) => value(b) - value(a))
    .map((head) => head.id);
  const press = (name) => page.click(`#table th button:text-is("${name}")`);
  await press('ablation-mean');
  assert.deepEqual(await column(0), byValue);
  assert.equal(await page.getAttribute('#table [aria-sort]', 'aria-sort'),
    'descending');
  await press('ablation-mean');
  assert.deepEqual(await column(0), [...byValue].reverse());
  await press('First score');
  const scores = await column(2);
  const none = scores.indexOf('');
  assert.ok(none > 0 && scores.slice(none).every((one) => one === ''));
  await press('First score');
  assert.notEqual((await column(2))[0], '', 'heads without a score stay last');
  await press('Head');
  assert.deepEqual(await column(0), heads);
});

test('strings of the data stay text', {skip}, async () => {
  const report = fixture();
  const nasty = ['</script><script>alert(1)</script>', '<img src=x onerror=a()>',
    '\u202e\u05d0\u05d1 rtl', '👩‍👩‍👧 🏳️‍🌈', '\u0000\u0007\u001b[31m', '$&', '',
    ' ', '\n', '&lt;b&gt;', '__proto__'];
  report.model.name = nasty[0];
  report.summary.sentences.push(nasty[1]);
  for (const head of report.heads) {
    head.top_keys = nasty.map((token) => ({token, share: 0.1}));
    head.content.writes = nasty.map((token) => (
      {token, top: nasty.map((one) => ({token: one, logit: 1}))}));
    head.examples[0].tokens = head.examples[0].tokens.map(
      (one, i) => nasty[i % nasty.length]);
  }
  report.samples[0].tokens = report.samples[0].tokens.map(
    (one, i) => nasty[i % nasty.length]);
  assert.ok(validate(report), JSON.stringify(validate.errors));
  const {page, trouble} = await open(report);
  assert.equal(await page.textContent('h1'), nasty[0]);
  assert.equal(await page.$$eval('img, #page script', (all) => all.length), 0);
  assert.match(await page.textContent('.bars'), /U\+202E/);
  assert.doesNotMatch(await page.textContent('#page'), /\u0000|\u001b|\u202e/);
  assert.deepEqual(trouble, []);
});

test('parts that are absent are said to be', {skip}, async () => {
  const full = fixture();
  const bare = {
    format: full.format, model: {name: 'bare'}, summary: {sentences: []},
    heads: full.heads.map(({id, layer, head, kind}) => (
      {id, layer, head, kind, roles: []})),
    absent: [{part: 'importance', why: 'It was left out, as was asked.'}],
  };
  assert.ok(validate(bare), JSON.stringify(validate.errors));
  const {page, trouble} = await open(bare);
  for (const id of ['layers', 'importance', 'similarity', 'composition']) {
    assert.ok(await page.$(`#${id} .absent`), id);
  }
  assert.match(await page.textContent('#importance .absent'),
               /left out, as was asked/);
  assert.deepEqual(trouble, []);
});

test('a card says what the head does in the run', {skip}, async () => {
  const report = fixture();
  const {page, trouble} = await open(report);
  const card = await page.textContent('.card');
  assert.match(card, /It copies: its output makes the token/);
  assert.doesNotMatch(card, /It suppresses/);
  assert.match(card, /by weights alone.*−0\.669.*misleads/is);
  assert.match(card, /first 128 tokens of 8 sequences/);
  assert.deepEqual(trouble, []);
});

test('heads that are only broad are counted apart', {skip}, async () => {
  const report = fixture();
  const role = {name: 'broad', shape: true, score: 0.9};
  report.heads.forEach((head, i) => { head.roles = i < 3 ? [role] : []; });
  report.heads[3].roles = [{name: 'local', score: 0.8}, role];
  assert.ok(validate(report), JSON.stringify(validate.errors));
  const {page} = await open(report);
  assert.match(await page.textContent('.tiles'), /1 of 48/);
  assert.match(await page.textContent('.tiles'), /3 more only broad/);
});

test('numbers that are not defined are left out', {skip}, async () => {
  const report = fixture();
  const [first, second] = report.heads;
  first.metrics.first = {mean: null, count: 3};
  first.importance.values['ablation-mean'].value = null;
  second.content.copying = second.content.copying_vocabulary = null;
  report.importance.criteria[0].gini = null;
  report.importance.correlations[0][1] = null;
  report.similarity.map[0].x = null;
  report.composition.edges[0].score = null;
  assert.ok(validate(report), JSON.stringify(validate.errors));
  const {page, trouble} = await open(report);
  await page.focus(`.cell[data-head="${first.id}"]`);
  assert.doesNotMatch(await page.textContent('#page'), /NaN|undefined|null/);
  const wrong = await page.$$eval('#page svg *', (all) => all.filter((one) =>
    [...one.attributes].some((a) => /NaN|undefined|null/.test(a.value)))
    .length);
  assert.equal(wrong, 0);
  assert.deepEqual(trouble, []);
});

test('every kind of attention has its grid', {skip}, async () => {
  const report = fixture({layers: 2, heads: 4});
  report.heads.push(...['decoder', 'cross'].flatMap((kind) =>
    fixture({layers: 2, heads: 4}).heads.map((head) => (
      {...head, id: `${kind}:${head.id}`, kind}))));
  report.samples[0].kind = 'self';
  const {page, trouble} = await open(report);
  assert.equal(await page.$$eval('[role=grid]', (all) => all.length), 3);
  await page.focus('.cell[data-head="cross:1.2"]');
  assert.equal(await page.textContent('#card-title'), 'Head cross:1.2');
  assert.deepEqual(trouble, []);
});

test('it prints light, whole and without controls', {skip}, async () => {
  const {page, trouble} = await open(fixture(), {colorScheme: 'dark'});
  const pdf = await page.pdf({format: 'A4', printBackground: true});
  assert.ok(pdf.length > 20000);
  await page.emulateMedia({media: 'print'});
  assert.equal(await page.isVisible('nav.top'), false);
  await page.setViewportSize({width: 700, height: 900});
  const cut = await page.$$eval('.figure.wide', (all) => all.filter(
    (one) => one.scrollWidth > one.clientWidth + 1).length);
  assert.equal(cut, 0, 'drawings cut by the edge of the paper');
  assert.deepEqual(trouble, []);
});

test('a report that is none says so', {skip}, async () => {
  const {page} = await open({format: 'other/1'});
  assert.match(await page.textContent('main'), /expected a headwise.report\/1/);
});

test('the fixture follows the schema', () => {
  assert.ok(validate(fixture()), JSON.stringify(validate.errors?.slice(0, 3)));
  const wrong = fixture();
  delete wrong.heads[0].roles;
  assert.ok(!validate(wrong));
});

const noReal = real === undefined && 'HEADWISE_REPORT is not set';

test('a real report follows the schema', {skip: noReal}, () => {
  const report = JSON.parse(readFileSync(join(real, 'report.json')));
  assert.ok(validate(report), JSON.stringify(validate.errors?.slice(0, 3)));
});

test('a real report opens', {skip: skip || noReal}, async () => {
  const file = join(real, 'report.html');
  assert.ok(readFileSync(file).length <= 3e6);
  for (const colorScheme of ['light', 'dark']) {
    const {page, trouble} = await open(file, {colorScheme});
    assert.ok(await page.$('.card .bars'));
    for (const cell of await page.$$('.cell')) await cell.focus();
    assert.deepEqual(await page.evaluate(contrasts), []);
    assert.deepEqual(trouble, []);
  }
});

test('a real report is readable without script', {skip: skip || noReal},
  async () => {
    const {page, trouble} = await open(join(real, 'report.html'),
      {javaScriptEnabled: false});
    assert.ok(await page.isVisible('h1'));
    assert.ok(await page.locator('tbody tr').count() >= 16);
    assert.deepEqual(trouble, []);
  });
