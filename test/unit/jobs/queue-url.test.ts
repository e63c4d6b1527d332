import { describe, expect, it } from 'vitest'
import { parseQueueUrl } from '#shared/jobs/queue-url.ts'

const node = (host: string, port: number) => ({ host, port })

describe('parseQueueUrl', () => {
  it.each([
    ['redis://h', { kind: 'redis', node: node('h', 6379), database: 0, tls: false, shown: 'redis://h' }],
    ['redis://h:1/2', { kind: 'redis', node: node('h', 1), database: 2, tls: false, shown: 'redis://h:1/2' }],
    [
      'rediss://me:p%40ss@h:1',
      {
        kind: 'redis',
        node: node('h', 1),
        database: 0,
        tls: true,
        username: 'me',
        password: 'p@ss',
        shown: 'rediss://h:1',
      },
    ],
    [
      'redis://:secret@[::1]:7',
      { kind: 'redis', node: node('::1', 7), database: 0, tls: false, password: 'secret', shown: 'redis://[::1]:7' },
    ],
    [
      'redis+cluster://:secret@a:1,b:2',
      {
        kind: 'cluster',
        nodes: [node('a', 1), node('b', 2)],
        tls: false,
        password: 'secret',
        shown: 'redis+cluster://a:1,b:2',
      },
    ],
    ['rediss+cluster://a', { kind: 'cluster', nodes: [node('a', 6379)], tls: true, shown: 'rediss+cluster://a' }],
    [
      'redis+sentinel://a:1,b/main/3',
      {
        kind: 'sentinel',
        sentinels: [node('a', 1), node('b', 26_379)],
        masterName: 'main',
        database: 3,
        tls: false,
        shown: 'redis+sentinel://a:1,b/main/3',
      },
    ],
    [
      'postgresql://me:secret@h:5432/queue?sslmode=require',
      {
        kind: 'postgres',
        url: 'postgresql://me:secret@h:5432/queue?sslmode=require',
        shown: 'postgresql://h:5432/queue',
      },
    ],
  ])('parses %s', (url, expected) => {
    expect(parseQueueUrl(url)).toEqual(expected)
  })

  it.each([
    '',
    'h:6379',
    'http://h',
    'amqp://me:secret@h',
    'redis://',
    'redis://a,b',
    'redis://me:secret@h:6379x',
    'redis://me:secret@h/one',
    'redis://me:secret@h/1/2',
    'redis+cluster://me:secret@h/1',
    'redis+sentinel://me:secret@h',
    'redis+sentinel://me:secret@h/main/zero',
    'redis+cluster://me:secret@a,,b',
  ])('rejects %j without quoting its password', (url) => {
    expect(() => parseQueueUrl(url)).toThrow(RangeError)
    expect(() => parseQueueUrl(url)).not.toThrow(/secret/)
  })
})
