import { render } from 'preact';
import { App } from './app.tsx';
import { followLinks } from './ui/navigate.ts';
import { applyTheme } from './ui/theme.ts';

applyTheme();
followLinks();
const root = document.getElementById('app');
if (root !== null) {
  root.textContent = '';
  render(<App />, root);
}
