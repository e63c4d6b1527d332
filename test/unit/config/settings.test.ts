import { describe, expect, it } from 'vitest'
import { readConfig as readApiConfig } from '../../../api/config.ts'
import { readConfig as readWorkerConfig } from '../../../workers/config.ts'
import { concurrencyOf } from '../../../workers/queue-settings.ts'

const shared = {
  DATABASE_URL: 'postgres://127.0.0.1/farebox',
  RPC_URL: 'http://127.0.0.1:1',
  PUBLIC_BASE_URL: 'http://127.0.0.1:2',
  DEPLOYMENTS_FILE: 'deployments.json',
}
const api = {
  ...shared,
  OBJECT_STORE_DIRECTORY: '/objects',
  CONTACT_EMAIL: 'operator@farebox.example',
  PAY_TO: `0x${'1'.repeat(40)}`,
  FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}`,
  CHALLENGE_SECRET: 'c'.repeat(32),
  RECEIPT_SECRETS: `k1:${'r'.repeat(32)}`,
  RECEIPT_SIGNING_KEY: `k1:${'5'.repeat(64)}`,
}
const worker = {
  ...shared,
  OBJECT_STORE_DIRECTORY: '/objects',
  SETTLEMENT_PRIVATE_KEYS: `0x${'3'.repeat(64)}`,
  RECEIPT_SECRET_ID: 'k1',
}

const { OBJECT_STORE_DIRECTORY: _, ...apiWithoutStore } = api
const { SETTLEMENT_PRIVATE_KEYS: __, ...workerWithoutKeys } = worker

describe('the settings of the queue', () => {
  it('may be left out: the queue is in the database, and a worker serves all of it', () => {
    const config = readWorkerConfig(worker)
    expect(config.QUEUE_URL).toBeUndefined()
    expect([...concurrencyOf(config)]).toEqual([
      ['text', 16],
      ['images', 16],
      ['speech', 16],
      ['transcriptions', 16],
      ['settlement', 16],
    ])
  })

  it('let a worker serve some queues, each with its own concurrency', () => {
    const config = readWorkerConfig({
      ...worker,
      WORKER_QUEUES: 'settlement, text',
      WORKER_CONCURRENCY: '4',
      WORKER_CONCURRENCY_SETTLEMENT: '64',
    })
    expect([...concurrencyOf(config)]).toEqual([
      ['settlement', 64],
      ['text', 4],
    ])
  })

  it.each([
    ['QUEUE_URL', { QUEUE_URL: 'amqp://user:secret@host' }],
    ['QUEUE_PREFIX', { QUEUE_PREFIX: 'farebox' }],
    ['QUEUE_PREFIX', { QUEUE_PREFIX: '{}' }],
    ['WORKER_QUEUES', { WORKER_QUEUES: 'text,video' }],
    ['WORKER_CONCURRENCY_TEXT', { WORKER_CONCURRENCY_TEXT: '0' }],
    ['DRAIN_SECONDS', { DRAIN_SECONDS: '-1' }],
    ['METRICS_PORT', { METRICS_PORT: '70000' }],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector' }],
    ['OTEL_TRACES_SAMPLER_ARG', { OTEL_TRACES_SAMPLER_ARG: '2' }],
  ])('that are wrong are refused by the name of %s', (name, changes) => {
    expect(() => readWorkerConfig({ ...worker, ...changes })).toThrow(name)
    expect(() => readWorkerConfig({ ...worker, ...changes })).not.toThrow('secret')
  })

  it('ask for a way to settle exactly where settlements are served', () => {
    const remote = { FACILITATOR_URL: 'https://facilitator.example' }
    expect(() => readWorkerConfig(workerWithoutKeys)).toThrow('SETTLEMENT_PRIVATE_KEYS')
    expect(() => readWorkerConfig({ ...workerWithoutKeys, WORKER_QUEUES: 'settlement' })).toThrow(
      'SETTLEMENT_PRIVATE_KEYS',
    )
    expect(readWorkerConfig({ ...workerWithoutKeys, WORKER_QUEUES: 'text' }).SETTLEMENT_PRIVATE_KEYS).toBeUndefined()
    expect(readWorkerConfig({ ...workerWithoutKeys, ...remote }).FACILITATOR_URL).toBe(remote.FACILITATOR_URL)
    // A worker that calls providers verifies payments through the facilitator that others settle with.
    expect(readWorkerConfig({ ...workerWithoutKeys, ...remote, WORKER_QUEUES: 'text' }).FACILITATOR_URL).toBe(
      remote.FACILITATOR_URL,
    )
    for (const WORKER_QUEUES of ['text', 'settlement'])
      expect(() => readWorkerConfig({ ...worker, ...remote, WORKER_QUEUES })).toThrow('exactly one')
  })
})

describe('the settings of the object store', () => {
  it('must name one', () => {
    expect(() => readApiConfig(apiWithoutStore)).toThrow('set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
    expect(() => readApiConfig({ ...api, S3_BUCKET: 'media' })).toThrow('set only one of')
    expect(readApiConfig({ ...apiWithoutStore, S3_BUCKET: 'media' }).S3_REGION).toBe('us-east-1')
  })

  it.each([
    ['S3_ACCESS_KEY_ID', { S3_BUCKET: 'media', S3_ACCESS_KEY_ID: 'key' }],
    ['S3_ACCESS_KEY_ID', { S3_BUCKET: 'media', S3_SECRET_ACCESS_KEY: 'key' }],
    ['S3_BUCKET', { OBJECT_STORE_DIRECTORY: '/objects', S3_ENDPOINT: 'http://127.0.0.1:3' }],
    ['S3_ENDPOINT', { S3_BUCKET: 'media', S3_ENDPOINT: 'not a URL' }],
    ['S3_FORCE_PATH_STYLE', { S3_BUCKET: 'media', S3_FORCE_PATH_STYLE: 'perhaps' }],
    ['MEDIA_DELIVERY', { OBJECT_STORE_DIRECTORY: '/objects', MEDIA_DELIVERY: 'redirect' }],
  ])('that are incomplete are refused by the name of %s', (name, changes) => {
    expect(() => readApiConfig({ ...apiWithoutStore, ...changes })).toThrow(name)
  })
})
