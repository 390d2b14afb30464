import { isObject } from '../base/json.ts';
import { ask } from './ask.ts';
import { makePrinter } from './options.ts';
import type { Common, Session } from './options.ts';

/** Where the dashboard is, and how to get in; 1 when it is switched off. */
export async function showUi(session: Session, options: Common): Promise<number> {
  const { config } = await ask(session, options, 'config.view', {});
  const api = isObject(config) && isObject(config['api']) ? config['api'] : {};
  const { enabled, listen } = api;
  const isOn = enabled === true && typeof listen === 'string';
  const address = isOn ? `http://${listen}/ui` : null;
  const printer = makePrinter(session.io, options);
  if (options.json === true) printer.json({ address });
  else if (address === null) {
    printer.line(
      'The dashboard needs the API, which is off: ductile config set api.enabled=true --apply',
    );
  } else {
    printer.line(address);
    printer.line('It asks for a token: ductile token create dashboard --role admin');
  }
  return isOn ? 0 : 1;
}
