import { canSetUp, setUp, type Place, type Setup } from '../ductile.ts';
import type { Arm, Measures } from '../frame.ts';
import { runNode } from '../program.ts';
import { settings } from '../settings.ts';

const { largeJobs, smallJobs } = settings;

export default (['sqlite', 'postgres'] as const).flatMap((ledger) => {
  const large = createLedgerOnce(ledger, 'large', largeJobs);
  const small = createLedgerOnce(ledger, 'small', smallJobs);
  const database = ledger === 'sqlite' ? 'SQLite' : 'PostgreSQL';
  return [
    largeArm(`Ductile, ${database}, large ledger, POST alone`, large, 'post', 0),
    largeArm(`Ductile, ${database}, large ledger, POST beside two dashboards`, large, 'post', 2),
    largeArm(`Ductile, ${database}, small ledger, reads`, small, 'reads', 0),
    largeArm(`Ductile, ${database}, large ledger, reads`, large, 'reads', 0),
  ];
});

interface SharedLedger {
  readonly setup: Setup;
  readonly place: () => Promise<Place>;
}

/** Creates a large ledger once for all arms; rows that a burst adds don't matter. */
function createLedgerOnce(ledger: Setup['ledger'], name: string, jobs: number): SharedLedger {
  const setup: Setup = {
    ledger,
    plugin: 'static',
    slots: 4,
    viewers: 3,
    name: `${name}-${ledger}`,
  };
  let made: Promise<Place> | undefined;
  const make = async (): Promise<Place> => {
    const place = await setUp(setup);
    const contents = { finished: jobs, queued: jobs };
    await runNode(
      'ductile-large-fill',
      { ...place, ...contents },
      { timeoutMs: settings.prepareTimeoutMs },
    );
    return place;
  };
  return { setup, place: () => (made ??= make()) };
}

function largeArm(
  name: string,
  { setup, place }: SharedLedger,
  what: 'post' | 'reads',
  dashboards: number,
): Arm {
  return {
    name,
    available: async () => await canSetUp(setup),
    async prepare() {
      await place();
    },
    async run(): Promise<Measures> {
      return await runNode('ductile-large', { ...(await place()), what, dashboards });
    },
  };
}
