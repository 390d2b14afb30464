import { ExactNumber } from './parse-json.ts';

/** The text that replaces a secret wherever something is shown. */
export const REDACTED = '[redacted]';

/** The prefix of the tokens of running jobs. */
export const RUN_TOKEN = 'dtr_';
/** The prefix of API tokens, by which one that leaked into a file or a log is found. */
export const API_TOKEN = 'duct_';

const PEM_KEY = '[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----';

/**
 * Tokens with a recognizable shape. A run of letters matches from its first boundary or not at all, so
 * the pattern never scans a text more than once.
 */
const shapes = new RegExp(
  [
    String.raw`\b(?:${RUN_TOKEN}|${API_TOKEN})[\w-]{20,}`,
    // GitHub, GitLab
    String.raw`\bgh[opsur]_\w{20,}`,
    String.raw`\bgithub_pat_\w{20,}`,
    String.raw`\bgl(?:agent|cbt|dt|ft|imt|oas|pat|ptt|rt|soat)-[\w-]{20,}`,
    // Slack, and addresses that are a secret as a whole
    String.raw`\bxox[abeoprs]-[\w-]{10,}`,
    String.raw`\bxapp-\d-[\w-]{10,}`,
    String.raw`\bhooks\.slack\.com/(?:services|triggers|workflows)/[\w/-]{20,}`,
    String.raw`\bdiscord(?:app)?\.com/api/webhooks/\d+/[\w-]{40,}`,
    // OpenAI and Anthropic, Groq, Hugging Face
    String.raw`\bsk-[\w-]{20,}`,
    String.raw`\bgsk_[A-Za-z0-9]{30,}`,
    String.raw`\bhf_[A-Za-z0-9]{30,}`,
    // Stripe
    String.raw`\b[rs]k_(?:live|test)_[A-Za-z0-9]{10,}`,
    String.raw`\bwhsec_[\w+/=-]{16,}`,
    // AWS, Google, Azure, DigitalOcean
    String.raw`\bA[KS]IA[A-Z0-9]{16}`,
    String.raw`\bAIza[\w-]{35}`,
    String.raw`\bya29\.[\w-]{20,}`,
    String.raw`\bGOCSPX-[\w-]{20,}`,
    String.raw`\b(?:AccountKey|SharedAccessKey)=[A-Za-z0-9+/]{20,}={0,2}`,
    String.raw`\bdo[opr]_v1_[a-f0-9]{40,}`,
    // npm, PyPI, Docker
    String.raw`\bnpm_[A-Za-z0-9]{30,}`,
    String.raw`\bpypi-[\w-]{40,}`,
    String.raw`\bdckr_pat_[\w-]{20,}`,
    // Shopify, SendGrid, Telegram, Vault, Tailscale, Atlassian, Grafana, Linear, age
    String.raw`\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{30,}`,
    String.raw`\bSG\.[\w-]{16,}\.[\w-]{16,}`,
    String.raw`(?<!\d)\d{6,12}:AA[\w-]{33}(?![\w-])`,
    String.raw`\bhv[bs]\.[\w-]{20,}`,
    String.raw`\btskey-[\w-]{20,}`,
    String.raw`\bATATT[\w=-]{20,}`,
    String.raw`\bglsa_\w{20,}`,
    String.raw`\blin_api_\w{20,}`,
    String.raw`\bAGE-SECRET-KEY-1[A-Z0-9]{40,}`,
    // JWT; a run without dots matches too, so that it isn't scanned again, and stays unmasked
    String.raw`\beyJ[\w-]{10,}(?:\.[\w-]{10,}\.[\w-]*)?`,
    // PEM, to its end or to the end of the text
    String.raw`-----BEGIN ${PEM_KEY}[^]*?(?:-----END ${PEM_KEY}|$)`,
  ].join('|'),
  'g',
);

/**
 * Every shape contains one of these hints, and most texts contain none. They start at rare characters,
 * so this search takes a fraction of the time of the shapes themselves.
 */
const shapeHint = new RegExp(
  [
    '(?<=dtr|duct|gh[opsur]|_pat|[rs]k|hsec|npm|hf|_v1|shp[a-z]{2}|glsa|_api)_',
    '(?<=gl[a-z]{2,5}|xox[a-z]|xapp|sk|SPX|pypi|tskey|AGE)-',
    String.raw`(?<=ya29|SG|hv[bs])\.`,
    'A(?:KIA|SIA|Iza|TATT)|eyJ|-----BEGIN|:AA|Key=',
    String.raw`hooks\.slack|/webhooks/`,
  ].join('|'),
);

const scheme = /\b(bearer|basic)(\s{1,10})([\w.~+/=-]{8,})/gi;
const schemeHint = /bearer|basic/i;

/** The scheme has a bound; without one, a text of many short words takes quadratic time. */
const urlPassword = /((?<![a-z0-9+.-])[a-z][a-z0-9+.-]{0,30}:\/\/[^\s/:@]*:)[^\s/@]+(@)/gi;
const parameter = /([?&])([A-Za-z][\w.-]{1,40})=([^&\s"'<>#\\]+)/g;
/** A key in JSON text, and how often its quotes were escaped: JSON may be inside JSON. */
const quotedKey = /"([A-Za-z][\w.-]{1,40})(\\{0,15})"\s{0,10}:\s{0,10}\2"/g;

/** A password in a URL takes at least this many characters, and everything else takes more. */
const SECRET_CHARS_MIN = 9;

/** Returns the text without secrets that are recognized by their shape, by a scheme or by a key beside them. */
export function maskText(text: string): string {
  if (text.length < SECRET_CHARS_MIN) return text;
  let masked = text;
  if (shapeHint.test(text)) masked = masked.replaceAll(shapes, maskShape);
  if (schemeHint.test(text)) masked = masked.replaceAll(scheme, maskScheme);
  if (text.includes('://') && text.includes('@')) {
    masked = masked.replaceAll(urlPassword, `$1${REDACTED}$2`);
  }
  if (text.includes('=')) masked = masked.replaceAll(parameter, maskParameter);
  return text.includes('"') ? maskQuoted(masked) : masked;
}

function maskShape(found: string): string {
  return found.startsWith('eyJ') && !found.includes('.') ? found : REDACTED;
}

function maskScheme(whole: string, name: string, blanks: string, value: string): string {
  const isSecret = name.toLowerCase() === 'bearer' || isPair(value);
  return isSecret ? `${name}${blanks}${REDACTED}` : whole;
}

/** Checks for the base64 of `user:password`, unlike in the text "basic authentication". */
function isPair(value: string): boolean {
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(value)) return false;
  return /^[\x20-\x7e]*:[\x20-\x7e]*$/.test(Buffer.from(value, 'base64').toString('latin1'));
}

function maskParameter(whole: string, before: string, name: string, value: string): string {
  return isSecretKey(name) && value !== REDACTED ? `${before}${name}=${REDACTED}` : whole;
}

function maskQuoted(text: string): string {
  let masked = '';
  let from = 0;
  quotedKey.lastIndex = 0;
  for (let match = quotedKey.exec(text); match !== null; match = quotedKey.exec(text)) {
    const [, name = '', escape = ''] = match;
    if (!isSecretKey(name)) continue;
    const start = quotedKey.lastIndex;
    const end = findQuoteEnd(text, start, escape.length);
    quotedKey.lastIndex = end;
    if (isEmptySecret(name, text.slice(start, end))) continue;
    masked += `${text.slice(from, start)}${REDACTED}`;
    from = end;
  }
  return from === 0 ? text : masked + text.slice(from);
}

/** Finds the end of a string whose quotes have this many escapes; the end of the text if it was cut. */
function findQuoteEnd(text: string, start: number, escapes: number): number {
  for (let at = text.indexOf('"', start); at !== -1; at = text.indexOf('"', at + 1)) {
    let run = 0;
    while (at - run > start && text[at - run - 1] === '\\') run += 1;
    // Quotes and backslashes inside the string have one more level of escapes than its own quotes.
    // Fewer escapes end the string around it.
    if (run < escapes) return at - run;
    if ((run - escapes) % (2 * (escapes + 1)) === 0) return at - escapes;
  }
  return text.length;
}

/** Checks whether a key with a secret's name holds none: `pwd` is a directory as often as a password. */
export function isEmptySecret(name: string, value: string): boolean {
  if (value === '' || value === REDACTED) return true;
  return name.toLowerCase() === 'pwd' && /^(?:[~/.]|[A-Za-z]:\\)/.test(value);
}

type Fields = Readonly<Record<string, unknown>>;

/** Returns a copy without secrets, by the names of keys and by the shapes of texts. */
export function maskSecrets(fields: Fields, levels = 8): Fields {
  const masked = Object.entries(fields).map(([key, value]) => [
    key,
    typeof value === 'string' && isSecretName(key) ? REDACTED : maskValue(value, levels),
  ]);
  return Object.fromEntries(masked) as Fields;
}

function maskValue(value: unknown, levels: number): unknown {
  if (typeof value === 'string') return maskText(value);
  if (typeof value !== 'object' || value === null || value instanceof ExactNumber) return value;
  // A deeper value probably contains itself.
  if (levels === 0) return REDACTED;
  if (Array.isArray(value)) return value.map((inner) => maskValue(inner, levels - 1));
  return maskSecrets(value as Fields, levels - 1);
}

/** The last words of names of keys that usually hold secrets. */
const endingWords = [
  'token',
  'secret',
  'password',
  'passwd',
  'passphrase',
  'passcode',
  'pgpassword',
  'pwd',
  '(?:access|account|api|auth|encryption|master|private|secret|signing|ssh|storage)_?key',
  'credential',
  'authorization',
  'cookie',
];
const endings = new RegExp(`(^|_)(${endingWords.join('|')})s?$`);

const KNOWN_MAX = 1000;
const KNOWN_CHARS_MAX = 64;
const known = new Map<string, boolean>();

/**
 * Checks by its last word whether a key usually holds a secret. Used for configuration and logs, where
 * hiding too much does no harm.
 */
export function isSecretName(name: string): boolean {
  if (name.length > KNOWN_CHARS_MAX) return endings.test(toSnake(name));
  let isSecret = known.get(name);
  if (isSecret !== undefined) return isSecret;
  isSecret = endings.test(toSnake(name));
  // The names of headers and fields repeat, so the results are cached.
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(name, isSecret);
  return isSecret;
}

/**
 * Checks whether a key has one of the exact names below, in any spelling. Used for data, which is refused
 * or masked because of it. `page_token` and `password_policy` aren't secrets.
 */
export function isSecretKey(name: string): boolean {
  return name.length <= NAME_CHARS_MAX && names.has(toSnake(name));
}

const names: ReadonlySet<string> = new Set(
  `access_key access_token account_key admin_password api_key api_secret api_token apikey app_secret auth_key
  auth_token authorization aws_secret_access_key aws_session_token bearer_token bot_token client_secret
  consumer_secret cookie credential credentials current_password database_password db_passwd db_password db_pwd
  encryption_key github_token gitlab_token hmac_secret id_token jwt_secret keystore_password master_key
  mfa_secret mysql_pwd new_password npm_token oauth_token oauth_token_secret old_password passcode passphrase
  passwd password password_confirmation personal_access_token pgpassword private_key private_token
  proxy_authorization pwd redis_password refresh_token root_password secret secret_access_key secret_key
  secret_token security_token session_token set_cookie shared_secret signing_key signing_secret slack_token
  smtp_password ssh_key ssh_private_key storage_key token token_secret totp_secret user_password
  webhook_secret webhook_token x_access_token x_api_key x_auth_token x_gitlab_token`.split(/\s+/),
);

/** `toSnake` only makes a name longer, so a longer name is none of these. */
const NAME_CHARS_MAX = Math.max(...[...names].map((name) => name.length));

const plainName = /^[a-z_]+$/;

function toSnake(name: string): string {
  if (plainName.test(name)) return name;
  const words = name.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').replaceAll(/[-. ]/g, '_');
  return words.toLowerCase();
}
