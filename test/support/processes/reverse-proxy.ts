import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../../../infra/sandbox/processes/free-port.ts'
import { spawnGuarded } from '../../../infra/sandbox/processes/guarded-process.ts'
import { until } from '../until.ts'
import { type OptionalProgram, pathOf } from './optional-program.ts'

const PAGE = fileURLToPath(new URL('../../../infra/README.md', import.meta.url))
/** Where the snippets of the page expect the API. */
const API_OF_THE_PAGE = { host: '127.0.0.1', port: '8402' }

/** A kind of proxy: the language of its snippet, what surrounds it, and what a user writes who knows nothing of farebox. */
interface Kind {
  readonly program: OptionalProgram
  readonly snippetLanguage: string
  readonly plain: string
  readonly frame: (snippet: string, at: { readonly port: number; readonly directory: string }) => string
  readonly args: (file: string, at: { readonly port: number; readonly directory: string }) => readonly string[]
}

/** Settings that Debian 12 ships (/etc/haproxy/haproxy.cfg, /etc/apache2), as far as they concern a proxy. */
const KINDS = {
  nginx: {
    program: 'nginx',
    snippetLanguage: 'nginx',
    plain: 'location / { proxy_pass http://127.0.0.1:8402; }',
    frame: (snippet, { port, directory }) => {
      const folders = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
      const paths = folders.map((name) => `${name}_temp_path ${directory}/${name};`).join('\n')
      return `daemon off; master_process off; pid ${directory}/pid; error_log stderr;
events {}
http { access_log off; ${paths}
server { listen 127.0.0.1:${port};
${snippet} } }`
    },
    args: (file, { directory }) => ['-p', directory, '-c', file, '-e', 'stderr'],
  },
  haproxy: {
    program: 'haproxy',
    snippetLanguage: 'haproxy',
    plain: 'backend farebox\n    server api 127.0.0.1:8402\n',
    frame: (snippet, { port }) => `defaults
    mode http
    timeout connect 5000
    timeout client 50000
    timeout server 50000
frontend callers
    bind 127.0.0.1:${port}
    default_backend farebox
${snippet}`,
    args: (file) => ['-db', '-f', file],
  },
  varnish: {
    program: 'varnishd',
    snippetLanguage: 'vcl',
    plain: 'backend default { .host = "127.0.0.1"; .port = "8402"; }',
    frame: (snippet) => `vcl 4.1;\n${snippet}`,
    args: (file, { port, directory }) =>
      `-F -j none -T none -s malloc,64m -n ${directory}/varnish -a 127.0.0.1:${port} -f ${file}`.split(' '),
  },
  apache: {
    program: 'apache2',
    snippetLanguage: 'apache',
    plain: 'ProxyPass "/" "http://127.0.0.1:8402/"',
    frame: (snippet, { port, directory }) => {
      const modules = ['mpm_event', 'authz_core', 'reqtimeout', 'proxy', 'proxy_http']
      const loaded = modules.map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so`)
      return `ServerRoot ${directory}\nServerName localhost\nDefaultRuntimeDir ${directory}\nPidFile ${directory}/pid
ErrorLog ${directory}/error.log
${loaded.join('\n')}
${process.getuid?.() === 0 ? 'User www-data\nGroup www-data' : ''}
Include /etc/apache2/mods-available/reqtimeout.conf
Timeout 300
Listen 127.0.0.1:${port}
${snippet}\n`
    },
    args: (file) => ['-D', 'FOREGROUND', '-f', file],
  },
  caddy: {
    program: 'caddy',
    snippetLanguage: 'caddyfile',
    plain: 'reverse_proxy 127.0.0.1:8402',
    frame: (snippet, { port }) => `{
admin off
auto_https off
}
http://127.0.0.1:${port} {
${snippet}
}`,
    args: (file) => ['run', '--config', file, '--adapter', 'caddyfile'],
  },
  squid: {
    program: 'squid',
    snippetLanguage: 'squid',
    plain: 'cache_peer 127.0.0.1 parent 8402 0 no-query originserver\nhttp_access allow all',
    frame: (snippet, { port }) => `http_port 127.0.0.1:${port} accel defaultsite=127.0.0.1
pid_filename none
access_log none
cache_log /dev/null
netdb_filename none
coredump_dir none
shutdown_lifetime 0 seconds
${snippet}`,
    args: (file) => ['-N', '-f', file],
  },
  lighttpd: {
    program: 'lighttpd',
    snippetLanguage: 'lighttpd',
    plain: 'server.modules += ( "mod_proxy" )\nproxy.server = ( "" => ( ( "host" => "127.0.0.1", "port" => 8402 ) ) )',
    frame: (snippet, { port, directory }) => `server.bind = "127.0.0.1"
server.port = ${port}
server.document-root = "${directory}"
server.upload-dirs = ( "${directory}" )
${snippet}`,
    args: (file) => ['-D', '-f', file],
  },
} as const satisfies Record<string, Kind>

export type ProxyKind = keyof typeof KINDS
export const PROXY_KINDS = Object.keys(KINDS) as readonly ProxyKind[]
export const PROXY_PROGRAMS = Object.values(KINDS).map(({ program }) => program)

/** A running proxy in front of an API. */
export interface ReverseProxy {
  readonly kind: ProxyKind
  readonly url: string
  stop(): Promise<void>
}

/** Returns the snippet that infra/README.md prints for this kind of proxy. */
async function printedSnippet(language: string): Promise<string> {
  const page = await readFile(PAGE, 'utf8')
  const [, snippet] = new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\``, 'm').exec(page) ?? []
  if (snippet === undefined) throw new Error(`infra/README.md has no snippet of ${language}`)
  return snippet
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}

/**
 * Starts a proxy in front of the API at `apiUrl`: with the snippet of infra/README.md, or with the least that makes it
 * forward. The service that its package may have installed is not touched.
 */
export async function startReverseProxy(
  name: ProxyKind,
  settings: 'printed' | 'plain',
  apiUrl: string,
): Promise<ReverseProxy> {
  const kind: Kind = KINDS[name]
  const directory = await mkdtemp(join(tmpdir(), `farebox-${name}-`))
  // Some of them leave root's rights.
  await chmod(directory, 0o777)
  await mkdir(join(directory, 'home'))
  const at = { port: await findFreePort(), directory }
  const snippet = settings === 'printed' ? await printedSnippet(kind.snippetLanguage) : kind.plain
  const file = join(directory, 'configuration')
  await writeFile(file, kind.frame(snippet.replaceAll(API_OF_THE_PAGE.port, new URL(apiUrl).port), at))
  const program = spawnGuarded({
    command: pathOf(kind.program),
    args: kind.args(file, at),
    env: { PATH: process.env['PATH'] ?? '', HOME: join(directory, 'home') },
  })
  const url = `http://127.0.0.1:${at.port}`
  // Not a request: varnish repeats a call that failed on a connection that it has used before.
  await until(() => isListening(at.port))
  return {
    kind: name,
    url,
    stop: async () => {
      await program.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
