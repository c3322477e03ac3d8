// Makes dist/report.html and dist/atlas.html of report.html and atlas.html:
// style and script inside. What the program puts in: src/headwise/report,
// html_report.cc and atlas_page.cc.
import {readdirSync, readFileSync, writeFileSync} from 'node:fs';
import {dirname, join} from 'node:path/posix';

// Without indentation, which no string of the page spans.
const read = (name) => readFileSync(name, 'utf8').replace(/^ +/gm, '');

// What tsc left in dist/js, each file a function of one script. main: the one
// that the page begins with; those of the other page are left out.
function script(main, other) {
  const modules = readdirSync('dist/js', {recursive: true})
    .filter((name) => name.endsWith('.js') && !name.startsWith(other))
    .sort().map((name) => {
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
load('${main}');
})();
`.replace(/<\/script/g, '<\\/script');
}

function build(name, main, other) {
  const page = read(name)
    .replace(/<link rel="stylesheet" href="\/(.*)">/g,
      (_, style) => `<style>\n${read(style)}</style>`)
    .replace(/<script type="module" src=.*>/,
      () => `<script type="module">\n${script(main, other)}</script>`);
  writeFileSync(`dist/${name}`, page);
}

build('report.html', 'main', 'atlas');
build('atlas.html', 'atlas/main', 'main');
