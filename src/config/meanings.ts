/**
 * The description of each key, for the reference and for editors. A test compares the list with the
 * schema.
 */
export const meanings: Readonly<Record<string, string>> = {
  include:
    'files to merge into this one, in order; a directory stands for its `*.yaml` files ' +
    '(default: none)',
  'environment_vars.include':
    'files of `NAME=value` lines for `${NAME}`; the environment of the process takes ' +
    'precedence (default: none)',
  'service.name': 'name of this installation (default: ductile)',
  'service.log_level': '`debug`, `info`, `warn` or `error` (default: info)',
  'service.log_format':
    '`json`, `text`, or `auto`: text on a terminal, JSON elsewhere (default: auto)',
  'service.max_workers':
    'number of jobs that this process runs at once (default: one less than the cores, at least 1)',
  'service.limits.memory':
    'memory of all processes of one attempt, such as `512MiB`; 0 is unlimited (default: unlimited)',
  'service.limits.processes':
    'concurrent processes of one attempt, without threads; 0 is unlimited (default: unlimited)',
  'service.limits.cpu':
    'CPU time of one attempt, such as `60s`; 0 is unlimited (default: unlimited)',
  'service.limits.file_size':
    'size of each file that a plugin writes, such as `1GiB`; 0 is unlimited (default: unlimited)',
  'service.dedupe_ttl': 'how long a succeeded job holds its dedupe key (default: 1d)',
  'service.job_queue_retention':
    'how long finished jobs and runs are kept, at least `service.dedupe_ttl` (default: 30d)',
  'service.job_log_retention': 'how long attempts and their output are kept (default: 30d)',
  'service.signal_retention': 'how long signals and webhook deliveries are kept (default: 30d)',
  'service.fact_retention':
    'how long facts are kept; the latest fact of each plugin is never deleted (default: 365d)',
  'service.context_retention': 'how long a context is kept that no job refers to (default: 30d)',
  'service.allow_symlinks':
    'allow symbolic links in the paths of plugins and configuration files (default: false)',
  'service.plugin_env_passthrough':
    'names of further environment variables that plugins get (default: none)',
  'service.shutdown_timeout':
    'how long running attempts may continue when the service stops (default: 30s)',
  'service.heartbeat_interval': 'how often each process sends a heartbeat (default: 5s)',
  'service.reap_after':
    'time without a heartbeat after which a process is presumed dead; at least three ' +
    'heartbeats (default: 30s)',
  'service.poll_interval':
    'how often to poll for new jobs when no notification arrives (default: 1s)',
  'service.max_crashes':
    'number of service crashes counted against a job before it is `dead` (default: 10)',
  'service.max_hops': 'number of signals in a chain before it counts as a loop (default: 32)',
  'service.runner_grace':
    'how long a job waits for a process that has its plugin before it is `dead` (default: 1h)',
  'service.spawner':
    'program that starts plugin processes: `native`, `node`, or `auto` for native if ' +
    'available (default: auto)',
  'service.tick_interval':
    'longest time between two checks of the schedules, at least 100ms; due schedules are ' +
    'checked at once (default: 1m)',
  'service.timezone':
    'time zone of schedules without their own (default: the time zone of the host)',
  'service.quiet_hours.start':
    'first quiet hour (0 to 23) of schedules and webhooks without their own; needs `end` ' +
    '(default: no quiet hours)',
  'service.quiet_hours.end':
    'first hour after the quiet hours; needs `start` (default: no quiet hours)',
  'service.breaker_transitions_retention':
    'how long changes of circuit breakers are kept (default: 90d)',
  'service.strict_mode': 'default of the four keys of `service.admission` (default: false)',
  'service.admission.verify_integrity_on_boot':
    'reject a configuration that was never locked (default: `service.strict_mode`)',
  'service.admission.fail_on_drift':
    'reject files that changed after they were locked (default: `service.strict_mode`)',
  'service.admission.validate_config_on_boot':
    'reject a configuration with warnings or with plugins that do not load (default: ' +
    '`service.strict_mode`)',
  'service.admission.require_api_auth':
    'require a token for discovery (default: `service.strict_mode`)',
  'state.path':
    'SQLite file; its directory also holds the lock and the control socket (default: ' +
    './data/state.db)',
  'state.url':
    'URL of a PostgreSQL database to use instead of SQLite; its parameter `schema` names the ' +
    'schema (default: none)',
  'state.schema': 'PostgreSQL schema, if the URL does not name it (default: ductile)',
  'state.dir': 'with `state.url`: directory of the control socket (default: ./data)',
  database: 'another name for `state`',
  plugin_roots: 'directories to search for plugins, in order; required',
  package_roots:
    'directories to search for packages, besides the one that comes with Ductile (default: none)',
  'plugins.<name>.enabled': 'load the plugin (default: true)',
  'plugins.<name>.uses':
    'plugin whose code runs under this name, with its own config and state (default: the ' +
    'plugin of this name)',
  'plugins.<name>.config':
    'settings that the plugin gets as `config`; `${VAR}` is replaced in texts, ' +
    '`credential:<name>` by the secret of that name (default: empty)',
  'plugins.<name>.retry.max_attempts':
    'failed attempts before the job is `dead` or `timed_out` (default: 4)',
  'plugins.<name>.retry.backoff_base':
    'delay before the second attempt; it doubles with each further one (default: 30s)',
  'plugins.<name>.timeouts':
    'timeout by command, `"*"` for all others (default: poll 60s, handle 120s, health 10s, ' +
    'init 30s, others 60s)',
  'plugins.<name>.parallelism':
    'jobs of the plugin at once over all processes (default: no limit, or 1 if the manifest ' +
    'has `concurrency_safe: false`)',
  'plugins.<name>.limits.memory':
    'memory of all processes of one attempt; 0 is unlimited (default: `service.limits.memory`)',
  'plugins.<name>.limits.processes':
    'concurrent processes of one attempt; 0 is unlimited (default: `service.limits.processes`)',
  'plugins.<name>.limits.cpu':
    'CPU time of one attempt; 0 is unlimited (default: `service.limits.cpu`)',
  'plugins.<name>.limits.file_size':
    'size of each file that the plugin writes; 0 is unlimited (default: ' +
    '`service.limits.file_size`)',
  'plugins.<name>.prewarm':
    'processes started ahead of their jobs, if the manifest allows it (default: one while ' +
    'callers wait for results)',
  'plugins.<name>.schedules':
    'times at which its commands run; see the page about schedules (default: none)',
  'plugins.<name>.circuit_breaker.threshold':
    'consecutive failures of a scheduled command before its breaker opens (default: 3)',
  'plugins.<name>.circuit_breaker.reset_after':
    'how long an open breaker blocks the command before one trial job (default: 30m)',
  'plugins.<name>.api_access.scopes':
    'scopes of the API token that each attempt gets; it is revoked when the attempt ends ' +
    '(default: no token)',
  'plugins.<name>.isolation.network':
    'network of confined processes: `host`, or `none` for a loopback of its own (default: ' +
    '`tenants.isolation.network` in tenants, else host). `isolation: {}` confines a plugin ' +
    'outside of tenants too',
  'plugins.<name>.isolation.read': 'further paths that confined processes may read (default: none)',
  'plugins.<name>.isolation.write':
    'directories besides /tmp that confined processes may write (default: none)',
  'plugins.<name>.shared':
    'offer the plugin with this configuration to every tenant (default: false)',
  'plugins.<name>.max_outstanding_polls':
    'open jobs of one schedule with `if_running: queue`; further times are skipped (default: 1)',
  'plugins.<name>.notify_on_complete':
    'emit `job.succeeded` when a job of the plugin succeeds that is not a step of a run ' +
    '(default: false)',
  'routes[].from': 'plugin whose events match (default: any)',
  'routes[].event_type': 'exact type of the events; required',
  'routes[].to': 'target: a plugin, or `plugin.command`; required',
  'routes[].command': 'command of the target (default: handle)',
  'routes[].shared': 'offer the route to every tenant (default: false)',
  'pipelines[].name': 'name for `call`, the API and the command line; required',
  'pipelines[].on':
    'exact type of the events that start it (default: none, it starts only by name)',
  'pipelines[].from_plugin': 'plugin whose events start it (default: any)',
  'pipelines[].if':
    'condition for an event to start it; see the page about pipelines (default: none)',
  'pipelines[].execution_mode':
    '`async`, or `synchronous`: an API caller that starts it waits for its end (default: async)',
  'pipelines[].timeout':
    'how long such a caller waits; the run continues afterwards (default: 30s)',
  'pipelines[].max_fanout':
    'most branches of a `foreach`, or of a step with several events (default: 10000)',
  'pipelines[].concurrency':
    'concurrent runs, or `key` and `limit` for concurrent runs with the same key; further ' +
    'runs wait (default: no limit)',
  'pipelines[].shared': 'offer the pipeline to every tenant (default: false)',
  'pipelines[].on_halt': '`plugin.command` that gets a job when a run halts (default: none)',
  'pipelines[].steps': 'steps of the pipeline; see the page about pipelines; required',
  'tenants.idle':
    'how long the database of a tenant stays open after its last request (default: 10s)',
  'tenants.limits.memory':
    'memory of all processes of one attempt in a tenant; 0 is unlimited (default: 1GiB)',
  'tenants.limits.processes':
    'concurrent processes of one attempt in a tenant; 0 is unlimited (default: 128)',
  'tenants.limits.cpu': 'CPU time of one attempt in a tenant; 0 is unlimited (default: unlimited)',
  'tenants.limits.file_size':
    'size of each file that a plugin of a tenant writes; 0 is unlimited (default: 1GiB)',
  'tenants.trust':
    '`isolated`: plugin processes of tenants are confined; `shared`: they run like your own ' +
    '(default: isolated)',
  'tenants.isolation.network': '`host`, or `none` for a loopback of its own (default: host)',
  'tenants.isolation.read': "further paths that tenants' plugin processes may read (default: none)",
  'tenants.isolation.write':
    "directories besides /tmp that tenants' plugin processes may write (default: none)",
  'directives.approval':
    'types of directives that need the approval of another person or an owner: a list, or a ' +
    'map from type to approvers (default: none)',
  'telemetry.metrics':
    'access to `/metrics`: `token` with the scope `metrics:ro`, or `open` (default: token)',
  'telemetry.otlp.endpoint':
    'URL of the collector for traces, in OTLP over HTTP with JSON, such as ' +
    '`http://localhost:4318`; required',
  'telemetry.otlp.headers':
    'headers of these requests by name, such as a token of the collector (default: none)',
  'api.enabled': 'serve the HTTP API; needs at least one token (default: false)',
  'api.listen': 'address and port of the API (default: 127.0.0.1:8080)',
  'api.auth.api_key': 'a token with all rights; use `tokens` for fewer scopes (default: none)',
  'api.auth.tokens[].name':
    'name of the token in the database and in logs (default: token- and its number)',
  'api.auth.tokens[].token': 'the secret itself, preferably as `${VAR}`; required',
  'api.auth.tokens[].scopes':
    'scopes of the token, such as `jobs:ro`; `*` grants everything (default: none)',
  'api.max_concurrent_sync':
    'requests that may wait for the end of their job at once (default: 10)',
  'api.max_sync_timeout': 'longest time that such a request may wait (default: 5m)',
  'api.allowed_origins': 'origins of web pages that may call the API; `*` is any (default: none)',
  'api.discovery':
    '`open`: plugins, skills and OpenAPI need no token; `token`: they need one (default: ' +
    'open, or token with `service.admission.require_api_auth`)',
  'api.sse_query_token': 'accept the token of `/events` in the query too (default: false)',
  'api.trusted_proxies':
    'addresses and subnets of proxies whose `X-Forwarded-For` is trusted (default: none)',
  'webhooks.enabled':
    'give webhooks a listener of their own (default: true if `listen` or `endpoints` is set)',
  'webhooks.listen': 'address and port of that listener (default: 127.0.0.1:8081)',
  'webhooks.order':
    '`strict`: verify a delivery before anything else; `compat`: read the body first, and ' +
    'accept only JSON (default: strict)',
  'webhooks.agent': 'plugin that runs webhooks with a `mode` (default: agent)',
  'webhooks.trusted_proxies':
    'addresses and subnets of proxies whose `X-Forwarded-For` is trusted (default: none)',
  'webhooks.public_url':
    'address that senders see, such as `https://hooks.example.org`; some sign it (default: none)',
  'webhooks.endpoints[].path': 'path on that listener, such as `/hook/github`; required',
  'webhooks.endpoints[].plugin': 'plugin that gets a job for each delivery; required',
  'webhooks.endpoints[].command': 'command of that plugin (default: handle)',
  'webhooks.endpoints[].secret_ref':
    'name of the HMAC-SHA256 secret in `tokens.yaml`, or else of a credential; required',
  'webhooks.endpoints[].signature_header': 'header with the signature; required',
  'webhooks.endpoints[].event_header':
    "header with the sender's event type (default: those of known senders, such as " +
    '`X-GitHub-Event`)',
  'webhooks.endpoints[].event_field':
    "field of the body with the sender's event type, such as `meta.kind` (default: none)",
  'webhooks.endpoints[].headers':
    'headers that signals, plugins and pipelines get; at most 20 (default: none)',
  'webhooks.endpoints[].max_body_size':
    'largest body, in bytes or as `512KB` or `512KiB` (default: 1MiB)',
  'webhooks.endpoints[].respond':
    'response to the sender: `accepted` at once, or `result` when the job has ended ' +
    '(default: accepted)',
  'webhooks.endpoints[].respond_within':
    'longest wait for the result; later the sender gets `accepted` (default: 10s)',
  'tokens[].name': 'in `tokens.yaml`: name of the token; required',
  'tokens[].key': 'the secret itself, preferably as `${VAR}`; required',
  'tokens[].scopes':
    'scopes of the token, such as `jobs:ro`; required without `scopes_file`, except for a ' +
    'webhook secret',
  'tokens[].scopes_file':
    'file with its scopes, in the form `{"scopes": ["jobs:ro"]}` (default: none)',
  'tokens[].scopes_hash': '`blake3:` and the required hash of that file (default: not checked)',
};
