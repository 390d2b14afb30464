/** Measures the time until the list of jobs is shown in a real browser. */
import { chromium } from 'playwright-core';
import { z } from 'zod';
import { listenApi } from '../../src/http/listeners.ts';
import { viewerToken } from '../ductile.ts';
import { findChromium } from './chromium.ts';
import { errorLog, openWithoutProcesses, placeShape } from './ductile.ts';
import { measure, percentile } from './harness.ts';

const shape = placeShape.extend({ ui: z.string(), samples: z.number() });

/** Script of the page that notes when the first row was drawn. */
const watch = `sessionStorage.setItem('ductile.token', ${JSON.stringify(viewerToken(0))});
const look = () => {
  if (document.querySelector('tbody tr') === null) requestAnimationFrame(look);
  else requestAnimationFrame(() => { window.painted = performance.now(); });
};
requestAnimationFrame(look);`;

/** Waits for the first row. The page's policy forbids code from text, but not scripts of the browser itself. */
const painted = `new Promise((resolve) => {
  const ask = () => (window.painted === undefined ? setTimeout(ask, 5) : resolve(window.painted));
  ask();
})`;

await measure(shape, async ({ config, ui, samples }) => {
  const engine = await openWithoutProcesses(config);
  const listener = await listenApi({ host: '127.0.0.1', port: 0, ui }, engine, errorLog());
  const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking'];
  const browser = await chromium.launch({ executablePath: findChromium() ?? '', args });
  const page = await (await browser.newContext()).newPage();
  await page.addInitScript({ content: watch });
  const times: number[] = [];
  for (let round = 0; round <= samples; round += 1) {
    await page.goto(`http://${listener.address}/ui/jobs`);
    const ms = await page.evaluate<number>(painted);
    // The first round also fills the caches.
    if (round > 0) times.push(ms);
  }
  await browser.close();
  await listener.close();
  return { p50Ms: percentile(times, 0.5), p99Ms: percentile(times, 0.99) };
});
