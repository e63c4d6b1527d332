export interface RedisNode {
  readonly host: string
  readonly port: number
}

interface RedisAccess {
  readonly username?: string
  readonly password?: string
  readonly tls: boolean
}

/** The queue's address, parsed from `QUEUE_URL`. `shown` is the address without user and password, for messages. */
export type QueueAddress = { readonly shown: string } & (
  | { readonly kind: 'postgres'; readonly url: string }
  | ({ readonly kind: 'redis'; readonly node: RedisNode; readonly database: number } & RedisAccess)
  | ({ readonly kind: 'cluster'; readonly nodes: readonly RedisNode[] } & RedisAccess)
  | ({
      readonly kind: 'sentinel'
      readonly sentinels: readonly RedisNode[]
      readonly masterName: string
      readonly database: number
    } & RedisAccess)
)

const FORMS =
  'postgres://user:password@host:port/database, redis://user:password@host:port/0 (rediss:// with TLS), ' +
  'redis+cluster://host:port,host:port or redis+sentinel://host:port,host:port/master-name'

const REDIS_PORT = 6379
const SENTINEL_PORT = 26_379

/** Scheme, user and password, hosts, path. Not parsed by `URL`, which does not allow a list of hosts. */
const URL_PARTS = /^([a-z]+(?:\+[a-z]+)?):\/\/(?:([^@/]*)@)?([^/?#]*)(\/[^?#]*)?$/

/** Parses a queue's URL. Throws with the known forms; the message never quotes the URL, which contains a password. */
export function parseQueueUrl(url: string): QueueAddress {
  // URLs of PostgreSQL may carry parameters, which its client reads.
  if (/^postgres(ql)?:\/\//.test(url)) return { kind: 'postgres', url, shown: withoutUser(url) }
  const [, scheme = '', user, hosts = '', path = '/'] = URL_PARTS.exec(url) ?? []
  const access = { ...readUser(user), tls: scheme.startsWith('rediss') }
  const shown = `${scheme}://${hosts}${path === '/' ? '' : path}`
  const segments = path.split('/').slice(1)
  switch (scheme.replace(/^rediss/, 'redis')) {
    case 'redis': {
      const [node, ...others] = readNodes(hosts, REDIS_PORT)
      if (!node || others.length > 0 || segments.length > 1) throw unknownForm()
      return { kind: 'redis', node, database: readDatabase(segments[0]), ...access, shown }
    }
    case 'redis+cluster':
      if (path !== '/') throw new RangeError('a Redis Cluster has no database numbers')
      return { kind: 'cluster', nodes: readNodes(hosts, REDIS_PORT), ...access, shown }
    case 'redis+sentinel': {
      const [masterName = '', database, ...others] = segments
      if (masterName === '' || others.length > 0) throw new RangeError('after the sentinels comes /master-name')
      const sentinels = readNodes(hosts, SENTINEL_PORT)
      return { kind: 'sentinel', sentinels, masterName, database: readDatabase(database), ...access, shown }
    }
    default:
      throw unknownForm()
  }
}

function unknownForm(): RangeError {
  return new RangeError(`known forms are ${FORMS}`)
}

function withoutUser(url: string): string {
  return url.replace(/\/\/[^@/]*@/, '//').replace(/\?.*$/, '')
}

function readUser(user: string | undefined): { username?: string; password?: string } {
  if (user === undefined || user === '') return {}
  const colon = user.indexOf(':')
  const username = decodeURIComponent(colon < 0 ? user : user.slice(0, colon))
  const password = colon < 0 ? undefined : decodeURIComponent(user.slice(colon + 1))
  return { ...(username === '' ? {} : { username }), ...(password === undefined ? {} : { password }) }
}

function readNodes(hosts: string, defaultPort: number): readonly RedisNode[] {
  return hosts.split(',').map((entry) => {
    const [, host = '', port] = /^(\[[0-9a-fA-F:]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(entry) ?? []
    if (host === '') throw unknownForm()
    return { host: host.replace(/^\[|\]$/g, ''), port: port === undefined ? defaultPort : Number(port) }
  })
}

function readDatabase(text: string | undefined): number {
  if (text === undefined || text === '') return 0
  if (!/^\d{1,4}$/.test(text)) throw new RangeError('a Redis database is a number')
  return Number(text)
}
