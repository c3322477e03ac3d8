// Builds dist/report.html: one file, with its script and style inside. The
// data and the plain tables are put in by src/headwise/report/html_report.cc.
import {defineConfig} from 'vite';

// Moves what Vite would put beside the page into it.
function inline() {
  return {
    name: 'inline',
    enforce: 'post',
    generateBundle(_options, bundle) {
      const page = bundle['report.html'];
      for (const [name, item] of Object.entries(bundle)) {
        if (item === page) continue;
        const source = item.type === 'chunk' ? item.code : String(item.source);
        const file = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
        // A function as the replacement: "$&" in the code must stay as it is.
        if (item.type === 'chunk') {
          page.source = page.source
            .replace(new RegExp(`<script[^>]*src="[^"]*${file}"></script>`), '')
            .replace('</body>', () => '<script type="module">' +
              source.replace(/<\/script/g, '<\\/script') +
              '</script>\n</body>');
        } else {
          page.source = page.source.replace(
            new RegExp(`<link[^>]*href="[^"]*${file}"[^>]*>`),
            () => `<style>${source}</style>`);
        }
        delete bundle[name];
      }
    },
  };
}

export default defineConfig({
  base: './',
  plugins: [inline()],
  build: {
    target: 'es2021',
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {input: 'report.html'},
  },
});
