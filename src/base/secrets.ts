/** What stands in the place of a secret wherever something is shown. */
export const REDACTED = '[redacted]';

const names = [
  'token',
  'secret',
  'password',
  'passwd',
  'passphrase',
  '(?:api|access|private|signing|encryption)_?key',
  'credential',
  'authorization',
  'cookie',
];
const endings = new RegExp(`(^|_)(${names.join('|')})s?$`);
/** What the tokens of running jobs begin with. */
export const RUN_TOKEN = 'dtr_';

/** Tokens that tell what they are: our own, GitHub, Slack, OpenAI, AWS, JWT. */
const shapes = new RegExp(
  [
    String.raw`\b${RUN_TOKEN}[\w-]{20,}`,
    String.raw`\bgh[opsur]_\w{20,}`,
    String.raw`\bgithub_pat_\w{20,}`,
    String.raw`\bxox[abprs]-[\w-]{10,}`,
    String.raw`\bsk-[\w-]{20,}`,
    String.raw`\bAKIA[A-Z0-9]{16}`,
    String.raw`\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*`,
  ].join('|'),
  'g',
);
const urlPassword = /(\b[a-z][a-z0-9+.-]*:\/\/[^\s/:@]*:)[^\s/@]+(@)/gi;

const bearer = /\b(bearer\s+)[\w.~+/=-]{8,}/gi;

const known = new Map<string, boolean>();

/** Whether a key of that name usually holds a secret. The names of headers and fields come again and again. */
export function isSecretName(name: string): boolean {
  if (name.length > KNOWN_CHARS_MAX) return endsSecretly(name);
  let answer = known.get(name);
  if (answer !== undefined) return answer;
  answer = endsSecretly(name);
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(name, answer);
  return answer;
}

const KNOWN_MAX = 1000;
const KNOWN_CHARS_MAX = 64;

function endsSecretly(name: string): boolean {
  const snake = name.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').replaceAll(/[-. ]/g, '_');
  return endings.test(snake.toLowerCase());
}

/** Every secret that can be told by its shape has one of these in it; most texts have none. */
const hints = [
  RUN_TOKEN,
  'gho_',
  'ghp_',
  'ghs_',
  'ghu_',
  'ghr_',
  'github_pat_',
  'xox',
  'sk-',
  'AKIA',
  'eyJ',
  '://',
];
const bearerHint = /bearer/i;

/** The text without what looks like a secret whatever it is called: known tokens, passwords in URLs. */
export function maskText(text: string): string {
  if (!hints.some((hint) => text.includes(hint)) && !bearerHint.test(text)) return text;
  return text
    .replaceAll(shapes, REDACTED)
    .replaceAll(bearer, `$1${REDACTED}`)
    .replaceAll(urlPassword, `$1${REDACTED}$2`);
}

type Fields = Readonly<Record<string, unknown>>;

/** A copy without secrets, by the names of keys and by the shapes of texts. */
export function maskSecrets(fields: Fields, levels = 8): Fields {
  const masked = Object.entries(fields).map(([key, value]) => [
    key,
    typeof value === 'string' && isSecretName(key) ? REDACTED : maskValue(value, levels),
  ]);
  return Object.fromEntries(masked) as Fields;
}

function maskValue(value: unknown, levels: number): unknown {
  if (typeof value === 'string') return maskText(value);
  if (typeof value !== 'object' || value === null) return value;
  // Deeper than this something may well contain itself.
  if (levels === 0) return REDACTED;
  if (Array.isArray(value)) return value.map((inner) => maskValue(inner, levels - 1));
  return maskSecrets(value as Fields, levels - 1);
}
