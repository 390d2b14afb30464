import { render } from 'preact';
import { App } from './app.tsx';
import { followLinks } from './ui/navigate.ts';
import { applyTheme } from './ui/theme.ts';

applyTheme();
followLinks();
const place = document.getElementById('app');
if (place !== null) {
  place.textContent = '';
  render(<App />, place);
}
