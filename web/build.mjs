// Makes dist/report.html of report.html: its style and its script inside. The
// data and the plain tables are put in by src/headwise/report/html_report.cc.
import {readdirSync, readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path/posix';

// Without indentation, which no string of the page spans.
const read = (name) => readFileSync(name, 'utf8').replace(/^ +/gm, '');

// What tsc left in dist/js, each file a function of one script.
function script() {
  const modules = readdirSync('dist/js', {recursive: true})
    .filter((name) => name.endsWith('.js')).sort().map((name) => {
      const code = read(join('dist/js', name)).replace(
        /require\("(\.[^"]+)"\)/g,
        (_, path) => `load('${join(dirname(name), path)}')`);
      return `'${name.slice(0, -3)}'(exports) {\n${code}}`;
    });
  return `(() => {
const made = {};
function load(name) {
  if (made[name] === undefined) modules[name](made[name] = {});
  return made[name];
}
const modules = {${modules.join(',\n')}};
load('main');
})();
`.replace(/<\/script/g, '<\\/script');
}

const page = read('report.html')
  .replace(/<link rel="stylesheet" href="\/(.*)">/g,
    (_, name) => `<style>\n${read(name)}</style>`)
  .replace(/<script type="module" src=.*>/,
    () => `<script type="module">\n${script()}</script>`);
writeFileSync('dist/report.html', page);
