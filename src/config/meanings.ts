/**
 * The description of each key, for the reference and for editors. A test compares the list with the
 * schema.
 */
export const meanings: Readonly<Record<string, string>> = {
  include: 'files, or directories of `*.yaml` files, that are merged into this one, in order',
  'environment_vars.include':
    'files of `NAME=value` lines for `${NAME}`; what the process was started with wins',
  'service.name': 'what this installation calls itself',
  'service.log_level': '`debug`, `info`, `warn` or `error`',
  'service.log_format': '`json`, `text`, or `auto`: text on a terminal, JSON elsewhere',
  'service.max_workers':
    'jobs that this process runs at once (default: one less than the cores, at least 1)',
  'service.limits.memory':
    'memory of all processes of one attempt, such as `512MiB`; 0 or unset is unlimited',
  'service.limits.processes':
    'processes of one attempt at the same time; 0 or unset is unlimited; threads are not counted',
  'service.limits.cpu': 'CPU time of one attempt, such as `60s`; 0 or unset is unlimited',
  'service.limits.file_size':
    'size of each file that a plugin writes, such as `1GiB`; 0 or unset is unlimited',
  'service.dedupe_ttl': 'how long a succeeded job keeps its dedupe key',
  'service.job_queue_retention': 'how long finished jobs are kept; not less than `dedupe_ttl`',
  'service.job_log_retention': 'how long their attempts are kept',
  'service.signal_retention': 'how long signals are kept',
  'service.fact_retention': "how long facts are kept; a plugin's latest one always is",
  'service.context_retention': 'how long contexts are kept that no job refers to',
  'service.allow_symlinks':
    'whether plugins and files of the configuration may be reached through symbolic links',
  'service.plugin_env_passthrough':
    'names of environment variables that plugins get besides the usual ones',
  'service.shutdown_timeout': 'what running attempts get when the process stops',
  'service.heartbeat_interval': 'how often a process says that it lives',
  'service.reap_after': 'silence after which a process is presumed dead; at least three heartbeats',
  'service.poll_interval': 'how often work is looked for without a hint',
  'service.max_crashes': 'crashes of the engine charged to one job before it is dead',
  'service.max_hops': 'signals in a chain before it counts as a loop',
  'service.runner_grace':
    'how long a job waits for a process that knows its plugin before it is dead',
  'service.spawner': '`native`, `node`, or `auto`: native where it is there',
  'service.tick_interval':
    'schedules are looked at when one is due, and at least this often (100ms or more)',
  'service.timezone': "the time zone of schedules that name none; the host's unless set",
  'service.quiet_hours.start':
    'the first quiet hour (0 to 23) of schedules and webhooks that name none',
  'service.quiet_hours.end':
    'the first hour that is not quiet any more; nothing is quiet without both',
  'service.breaker_transitions_retention': 'how long changes of circuit breakers are kept',
  'service.strict_mode': 'the default of the four keys of `service.admission`',
  'service.admission.verify_integrity_on_boot':
    'refuse a configuration that was never locked; `service.strict_mode` unless set',
  'service.admission.fail_on_drift':
    'refuse files that changed after they were locked; `service.strict_mode` unless set',
  'service.admission.validate_config_on_boot':
    'refuse plugins that do not load, and warnings; `service.strict_mode` unless set',
  'service.admission.require_api_auth':
    'discovery needs a token too; `service.strict_mode` unless set',
  'state.path': 'the SQLite file; its directory also holds the lock and the control socket',
  'state.url': 'a PostgreSQL server instead; the parameter `schema` names the schema',
  'state.schema': 'the PostgreSQL schema, if not in the URL; `ductile` unless set',
  'state.dir': 'with `state.url`: the directory of the control socket; `./data` unless set',
  database: 'another name for `state`',
  plugin_roots: 'directories that are searched for plugins, in order; required',
  package_roots: 'directories that are searched for packages, besides those that come with Ductile',
  'plugins.<name>.enabled': 'whether it is loaded',
  'plugins.<name>.uses':
    'the plugin whose code runs under this name, with config and state of its own',
  'plugins.<name>.config':
    'what the plugin gets as `config`; `${VAR}` is replaced in texts, `credential:<name>` is the ' +
    'secret of that name',
  'plugins.<name>.retry.max_attempts': 'failures before the job is given up',
  'plugins.<name>.retry.backoff_base': 'the delay before the second try; it doubles each time',
  'plugins.<name>.timeouts':
    'by command, `"*"` for the others; poll 60s, handle 120s, health 10s, init 30s, others 60s',
  'plugins.<name>.parallelism':
    'jobs of it at once over all processes; no limit unless set, or 1 when the manifest says so',
  'plugins.<name>.limits.memory':
    'memory of all processes of one attempt (default: `service.limits.memory`); 0 is unlimited',
  'plugins.<name>.limits.processes':
    'processes of one attempt at the same time (default: `service.limits.processes`); 0 is unlimited',
  'plugins.<name>.limits.cpu':
    'CPU time of one attempt (default: `service.limits.cpu`); 0 is unlimited',
  'plugins.<name>.limits.file_size':
    'size of each file that it writes (default: `service.limits.file_size`); 0 is unlimited',
  'plugins.<name>.prewarm':
    'processes that wait ahead, if the manifest consents; unless set, one while somebody waits',
  'plugins.<name>.schedules': 'when its commands are due; see the page about schedules',
  'plugins.<name>.circuit_breaker.threshold':
    'failures in a row of a scheduled command before it pauses',
  'plugins.<name>.circuit_breaker.reset_after': 'how long it pauses before one try',
  'plugins.<name>.api_access.scopes':
    'what its jobs may ask of the API while they run: each attempt gets a token that dies with it',
  'plugins.<name>.isolation.network':
    'with `isolation`, even `{}`, processes are confined (default: only in tenants). `host`, or ' +
    '`none` for a loopback of its own (default: `tenants.isolation.network` in tenants, else host)',
  'plugins.<name>.isolation.read': 'paths that confined processes may read besides the usual ones',
  'plugins.<name>.isolation.write': 'directories that confined processes may write besides /tmp',
  'plugins.<name>.shared': 'whether every tenant has it too, with this configuration',
  'plugins.<name>.max_outstanding_polls': 'queued and running jobs of one schedule before it waits',
  'plugins.<name>.notify_on_complete':
    'whether Ductile emits `job.succeeded` when a job of it succeeds that is not a step of a run',
  'routes[].from': 'only events of this plugin',
  'routes[].event_type': 'the exact type; required',
  'routes[].to': 'a plugin, or `plugin.command`; required',
  'routes[].command': 'the command, `handle` unless set',
  'routes[].shared': 'whether every tenant has it too',
  'pipelines[].name': 'what it is called by `call`, the API and the command line; required',
  'pipelines[].on': 'the exact type of the events that start it; without it only its name does',
  'pipelines[].from_plugin': 'only events of this plugin',
  'pipelines[].if': 'only when this condition holds; see the page about pipelines',
  'pipelines[].execution_mode':
    '`async` unless set, or `synchronous`: who starts it over the API waits for its end',
  'pipelines[].timeout': 'how long such a caller waits, 30s unless set; the run goes on after it',
  'pipelines[].max_fanout':
    'branches of one `foreach`, or of one step with several events; 10000 unless set',
  'pipelines[].concurrency':
    'runs of it at once; or `key` and `limit`: runs at once with the same key, others wait',
  'pipelines[].shared': 'whether every tenant has it too',
  'pipelines[].on_halt': '`plugin.command` that gets a job when a run halts',
  'pipelines[].steps': 'what it does; see the page about pipelines; required',
  'tenants.idle': 'How long the ledger of a tenant stays open after the last request for it.',
  'tenants.limits.memory': 'the same limit for plugins of tenants; 0 is unlimited',
  'tenants.limits.processes': 'the same limit for plugins of tenants; 0 is unlimited',
  'tenants.limits.cpu': 'the same limit for plugins of tenants; 0 is unlimited',
  'tenants.limits.file_size': 'the same limit for plugins of tenants; 0 is unlimited',
  'tenants.trust':
    '`isolated`: plugin processes of tenants are confined; `shared`: they run like your own',
  'tenants.isolation.network': '`host`, or `none` for a loopback of its own (default: host)',
  'tenants.isolation.read': "paths that tenants' plugin processes may read besides the usual ones",
  'tenants.isolation.write': "directories that tenants' plugin processes may write besides /tmp",
  'directives.approval':
    'types of directives that wait until somebody else than the one who asks, or an owner, ' +
    'approves them: a list of types, or a map from type to the actors who may approve',
  'telemetry.metrics': 'whether `/metrics` needs a `token` with `metrics:ro`, or is `open`',
  'telemetry.otlp.endpoint':
    'where traces go, in OTLP over HTTP with JSON, such as `http://localhost:4318`; required',
  'telemetry.otlp.headers': 'headers of these requests by name, such as a token of the collector',
  'api.enabled': 'whether the HTTP API is served; it needs at least one token',
  'api.listen': 'address and port',
  'api.auth.api_key': 'one token that may do everything; `tokens` can say more',
  'api.auth.tokens[].name': 'what the token is called in the ledger and in logs',
  'api.auth.tokens[].token': 'the secret itself; better `${VAR}` than plain; required',
  'api.auth.tokens[].scopes': 'what it may do, such as `jobs:ro`; `*` is everything',
  'api.max_concurrent_sync': 'requests that may wait for the end of their job at once',
  'api.max_sync_timeout': 'the longest that such a request may wait',
  'api.allowed_origins': 'origins of web pages that may ask; `*` is any',
  'api.discovery':
    '`open`: plugins, skills and OpenAPI need no token; `token`: they do, ' +
    'as they do unless set with `service.admission.require_api_auth`',
  'api.sse_query_token': 'whether `/events` takes its token from the query too',
  'api.trusted_proxies':
    'addresses and subnets of proxies whose `X-Forwarded-For` says where a request came from',
  'webhooks.enabled':
    'whether webhooks have a listener of their own; yes when `listen` or `endpoints` is set',
  'webhooks.listen': 'its address and port; `127.0.0.1:8081` unless set',
  'webhooks.order':
    '`strict`: nothing is looked at that is not verified; `compat`: the body is read first, and ' +
    'JSON is all that is taken',
  'webhooks.agent': 'the plugin that answers for webhooks with a `mode`',
  'webhooks.trusted_proxies':
    'addresses and subnets of proxies whose `X-Forwarded-For` says where a request came from',
  'webhooks.public_url':
    'what senders see of the address, as in `https://hooks.example.org`; some sign it',
  'webhooks.endpoints[].path': 'where it is on that listener, such as `/hook/github`; required',
  'webhooks.endpoints[].plugin': 'the plugin that gets a job for each delivery; required',
  'webhooks.endpoints[].command': 'its command, `handle` unless set',
  'webhooks.endpoints[].secret_ref':
    'a name in `tokens.yaml`, or else a credential: the secret of its HMAC-SHA256; required',
  'webhooks.endpoints[].signature_header': 'the header with the signature; required',
  'webhooks.endpoints[].event_header':
    "the header with the sender's event type (default: those of known senders, such as `X-GitHub-Event`)",
  'webhooks.endpoints[].event_field':
    "the field of the body with the sender's event type, such as `meta.kind`",
  'webhooks.endpoints[].headers': 'headers that signals, plugins and pipelines get; at most 20',
  'webhooks.endpoints[].max_body_size':
    'the largest body, in bytes or as `512KB` or `512KiB` (default: 1MiB)',
  'webhooks.endpoints[].respond':
    'what a sender is told: `accepted`, at once, or `result`, when the job has ended',
  'webhooks.endpoints[].respond_within':
    'how long it waits for the result, `10s` unless set; then it is told `accepted`',
  'tokens[].name': 'in `tokens.yaml`: what the token is called; required',
  'tokens[].key': 'the secret itself; better `${VAR}` than plain; required',
  'tokens[].scopes': 'what it may do, if no file says so',
  'tokens[].scopes_file': 'a file of the form `{"scopes": ["jobs:ro"]}`',
  'tokens[].scopes_hash': '`blake3:` and the hash that the file must have',
};
