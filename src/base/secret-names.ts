/** Names of keys that hold secrets. */

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
 * Whether a key with this name usually holds a secret, judged by its last word: for configuration and
 * logs, where hiding too much does no harm.
 */
export function isSecretName(name: string): boolean {
  if (name.length > KNOWN_CHARS_MAX) return endings.test(toSnake(name));
  let answer = known.get(name);
  if (answer !== undefined) return answer;
  answer = endings.test(toSnake(name));
  // The names of headers and fields repeat, so the answers are kept.
  if (known.size >= KNOWN_MAX) known.clear();
  known.set(name, answer);
  return answer;
}

/**
 * Whether a key has one of the exact names below, in any spelling: for data, which is refused or masked
 * because of it. `page_token` and `password_policy` aren't secrets.
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

/** Spelling a name with `_` only makes it longer. */
const NAME_CHARS_MAX = Math.max(...[...names].map((name) => name.length));

const plainName = /^[a-z_]+$/;

function toSnake(name: string): string {
  if (plainName.test(name)) return name;
  const words = name.replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').replaceAll(/[-. ]/g, '_');
  return words.toLowerCase();
}
