import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { maximumFeePerGasWei } from '#shared/catalog/fee-limit.ts'
import { minimumRemainingSeconds } from '#shared/operations/text/output-time.ts'
import { maximumHeadAgeMs } from '#shared/payment/chain-settings.ts'
import { unchargedBudget } from '#shared/payment/exposure-settings.ts'
import { readConfig as readApiConfig } from '../../api/config.ts'
import { isOwnServer } from '../../infra/commands/preflight/check-stores.ts'
import { concurrencyOf, readConfig as readWorkerConfig } from '../../workers/config.ts'

const REMOTE_FACILITATOR = { FACILITATOR_URL: 'https://facilitator.example', FACILITATOR_API_KEY: 'key' }
const FACILITATOR_ADDRESSES_SETTING = { FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}` }
const SETTLEMENT_KEYS_SETTING = { SETTLEMENT_PRIVATE_KEYS: `0x${'3'.repeat(64)}` }

describe('settings from the environment', () => {
  const SHARED_SETTINGS = {
    DATABASE_URL: 'postgres://127.0.0.1/farebox',
    RPC_URL: 'http://127.0.0.1:1',
    PUBLIC_BASE_URL: 'http://127.0.0.1:2',
    DEPLOYMENTS_FILE: 'deployments.json',
  }
  const API_SETTINGS = {
    ...SHARED_SETTINGS,
    OBJECT_STORE_DIRECTORY: '/objects',
    CONTACT_EMAIL: 'operator@farebox.example',
    PAY_TO: `0x${'1'.repeat(40)}`,
    FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}`,
    CHALLENGE_SECRET: 'c'.repeat(32),
    RECEIPT_SECRETS: `k1:${'r'.repeat(32)}`,
    RECEIPT_SIGNING_KEY: `k1:${'5'.repeat(64)}`,
  }
  const WORKER_SETTINGS = {
    ...SHARED_SETTINGS,
    OBJECT_STORE_DIRECTORY: '/objects',
    SETTLEMENT_PRIVATE_KEYS: `0x${'3'.repeat(64)}`,
    RECEIPT_SECRET_ID: 'k1',
  }
  const { OBJECT_STORE_DIRECTORY: _, ...API_WITHOUT_STORE } = API_SETTINGS
  const { SETTLEMENT_PRIVATE_KEYS: __, ...WORKER_WITHOUT_KEYS } = WORKER_SETTINGS
  const readProxies = (TRUSTED_PROXIES: string) => readApiConfig({ ...API_SETTINGS, TRUSTED_PROXIES }).TRUSTED_PROXIES
  describe('queue settings', () => {
    it('the queue defaults to PostgreSQL, and a worker to serving every queue', () => {
      const config = readWorkerConfig(WORKER_SETTINGS)
      expect(config.QUEUE_URL).toBeUndefined()
      expect([...concurrencyOf(config)]).toEqual([
        ['text', 1000],
        ['images', 1000],
        ['speech', 1000],
        ['transcriptions', 1000],
        ['settlement', 1000],
      ])
    })

    it('a worker serves only the queues of WORKER_QUEUES, each with WORKER_CONCURRENCY jobs', () => {
      const config = readWorkerConfig({
        ...WORKER_SETTINGS,
        WORKER_QUEUES: 'settlement, text',
        WORKER_CONCURRENCY: '4',
      })
      expect([...concurrencyOf(config)]).toEqual([
        ['settlement', 4],
        ['text', 4],
      ])
    })

    it.each([
      ['QUEUE_URL', { QUEUE_URL: 'amqp://user:secret@host' }],
      ['QUEUE_PREFIX', { QUEUE_PREFIX: 'farebox' }],
      ['QUEUE_PREFIX', { QUEUE_PREFIX: '{}' }],
      ['WORKER_QUEUES', { WORKER_QUEUES: 'text,video' }],
      ['WORKER_CONCURRENCY', { WORKER_CONCURRENCY: '0' }],
      ['DRAIN_SECONDS', { DRAIN_SECONDS: '-1' }],
      ['METRICS_PORT', { METRICS_PORT: '70000' }],
      ['OTEL_EXPORTER_OTLP_ENDPOINT', { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector' }],
      ['OTEL_TRACES_SAMPLER_ARG', { OTEL_TRACES_SAMPLER_ARG: '2' }],
    ])('rejects an invalid %s with an error that names the setting and quotes no secret', (name, changes) => {
      expect(() => readWorkerConfig({ ...WORKER_SETTINGS, ...changes })).toThrow(name)
      expect(() => readWorkerConfig({ ...WORKER_SETTINGS, ...changes })).not.toThrow('secret')
    })

    it('a worker that serves settlement needs either settlement keys or a remote facilitator', () => {
      const remote = { FACILITATOR_URL: 'https://facilitator.example' }
      expect(() => readWorkerConfig(WORKER_WITHOUT_KEYS)).toThrow('SETTLEMENT_PRIVATE_KEYS')
      expect(() => readWorkerConfig({ ...WORKER_WITHOUT_KEYS, WORKER_QUEUES: 'settlement' })).toThrow(
        'SETTLEMENT_PRIVATE_KEYS',
      )
      expect(
        readWorkerConfig({ ...WORKER_WITHOUT_KEYS, WORKER_QUEUES: 'text' }).SETTLEMENT_PRIVATE_KEYS,
      ).toBeUndefined()
      expect(readWorkerConfig({ ...WORKER_WITHOUT_KEYS, ...remote }).FACILITATOR_URL).toBe(remote.FACILITATOR_URL)
      // A worker that calls providers verifies payments through the facilitator, even if other workers settle.
      expect(readWorkerConfig({ ...WORKER_WITHOUT_KEYS, ...remote, WORKER_QUEUES: 'text' }).FACILITATOR_URL).toBe(
        remote.FACILITATOR_URL,
      )
      for (const WORKER_QUEUES of ['text', 'settlement'])
        expect(() => readWorkerConfig({ ...WORKER_SETTINGS, ...remote, WORKER_QUEUES })).toThrow('exactly one')
    })
  })

  it.each([
    ['RECEIPT_SECRETS', 'r'.repeat(32), 's'.repeat(32)],
    ['RECEIPT_SIGNING_KEY', '5'.repeat(64), '6'.repeat(64)],
  ])('two of %s with one id do not start: what the older one signed would no longer verify', (name, newer, older) => {
    const read = (list: string) => () => readApiConfig({ ...API_SETTINGS, [name]: list })
    expect(read(`k2:${newer},k1:${older}`)).not.toThrow()
    expect(read(`k1:${newer},k1:${older}`)).toThrow(`each needs an id of its own\n  → at ${name}`)
  })

  describe('published samples', () => {
    const samples = parseEnv(readFileSync(new URL('../../.env.example', import.meta.url), 'utf8'))

    it.each(['PAY_TO', 'FACILITATOR_ADDRESSES', 'CHALLENGE_SECRET', 'RECEIPT_SECRETS', 'RECEIPT_SIGNING_KEY'])(
      'the API does not start with the %s of .env.example, and names it',
      (name) => {
        expect(samples[name]).toBeTruthy()
        expect(() => readApiConfig({ ...API_SETTINGS, [name]: samples[name] })).toThrow(name)
      },
    )

    it('one error names every sample that was not replaced, next to other invalid settings', () => {
      const settings = { ...API_SETTINGS, ...samples, PORT: 'none' }
      for (const name of ['PAY_TO', 'CHALLENGE_SECRET', 'RECEIPT_SECRETS', 'RECEIPT_SIGNING_KEY', 'PORT'])
        expect(() => readApiConfig(settings)).toThrow(name)
    })

    it.each([
      ['the sample', samples['SETTLEMENT_PRIVATE_KEYS']],
      ['a valid key and zero', `0x${'3'.repeat(64)},0x${'0'.repeat(64)}`],
      ['a number beyond the order of the curve', `0x${'f'.repeat(64)}`],
    ])('a worker does not start with %s as SETTLEMENT_PRIVATE_KEYS, and quotes no key', (_name, keys) => {
      const read = () => readWorkerConfig({ ...WORKER_SETTINGS, SETTLEMENT_PRIVATE_KEYS: keys })
      expect(read).toThrow(/^invalid configuration:[^]*SETTLEMENT_PRIVATE_KEYS/)
      expect(read).toThrow(/^(?![^]*(0{10}|f{10}|3{10}))/)
    })

    it.each([`0x${'0'.repeat(40)}`, `0x${'0'.repeat(36)}ffff`])(
      'nobody can spend from %s, so it is no PAY_TO',
      (address) => {
        expect(() => readApiConfig({ ...API_SETTINGS, PAY_TO: address })).toThrow('PAY_TO')
      },
    )

    it('any other address may be PAY_TO', () => {
      const PAY_TO = `0x${'0'.repeat(35)}10000`
      expect(readApiConfig({ ...API_SETTINGS, PAY_TO }).PAY_TO).toEqual([PAY_TO])
    })

    it.each([
      ['PAY_TO', `0x${'1'.repeat(40)},0x${'0'.repeat(39)}1`],
      ['ACCEPTED_FACILITATOR_ADDRESSES', `0x${'1'.repeat(40)},`],
      ['CHALLENGE_SECRET', `${'c'.repeat(32)},short`],
    ])('the API does not start with a list as %s of which one value is invalid', (name, list) => {
      expect(() => readApiConfig({ ...API_SETTINGS, [name]: list })).toThrow(name)
    })

    it.each(['SCREENING_API_KEY', 'FACILITATOR_API_KEY'])('a worker does not start with a sample as %s', (name) => {
      expect(() => readWorkerConfig({ ...WORKER_SETTINGS, [name]: 'replace-with-your-key' })).toThrow(name)
    })
  })

  const read = (text: string) => readWorkerConfig({ ...WORKER_SETTINGS, PROVIDER_KEYS: text }).PROVIDER_KEYS
  describe('the origins of provider keys', () => {
    it('are those that the worker’s settings name, several of one key too', () => {
      expect(
        read('A_KEY=https://a.test,A_KEY=https://eu.a.test/, B_KEY=https://b.test:8443,none=http://vllm:8000'),
      ).toEqual({
        A_KEY: ['https://a.test', 'https://eu.a.test'],
        B_KEY: ['https://b.test:8443'],
        none: ['http://vllm:8000'],
      })
      expect(readWorkerConfig(WORKER_SETTINGS).PROVIDER_KEYS).toBeUndefined()
    })

    it.each([
      ['nothing', '', /entry 1 must be NAME=https/],
      ['a key in place of its name', 'sk-CANARY', /entry 1 must be NAME=https/],
      ['a key in place of its origin', 'A_KEY=https://a.test,B_KEY=sk-CANARY', /entry 2: B_KEY needs an origin/],
      ['a path', 'A_KEY=https://a.test/CANARY', /A_KEY needs an origin/],
      ['another scheme', 'A_KEY=ftp://CANARY', /A_KEY needs an origin/],
      ['a password', 'A_KEY=https://CANARY@a.test', /A_KEY needs an origin/],
      ['a setting of farebox', 'DATABASE_URL=https://a.test', /DATABASE_URL is a setting of farebox/],
    ])('with %s a worker does not start, and quotes no value', (_, text, message) => {
      expect(() => read(text)).toThrow(message)
      expect(() => read(text)).toThrow(/^(?![^]*CANARY)[^]*PROVIDER_KEYS/)
    })
  })

  describe('time settings', () => {
    it('a long answer fits into an authorization with the defaults', () => {
      expect(readApiConfig(API_SETTINGS)).toMatchObject({ OUTPUT_TOKENS_PER_SECOND: 128 })
      expect(readWorkerConfig(WORKER_SETTINGS)).toMatchObject({ OUTPUT_TOKENS_PER_SECOND: 128 })
    })

    it.each([
      ['lifetime that is too short', { AUTHORIZATION_LIFETIME_SECONDS: '743' }, 'at least 744'],
      ['limit of calls that is too long', { PROVIDER_TIMEOUT_SECONDS: '427' }, 'at least 901'],
      ['writing speed that is too slow', { OUTPUT_TOKENS_PER_SECOND: '64' }, 'at least 1128'],
    ])('the API does not start with a %s for the longest answer that it sells', (_name, changes, message) => {
      expect(() => readApiConfig({ ...API_SETTINGS, ...changes })).toThrow('AUTHORIZATION_LIFETIME_SECONDS')
      expect(() => readApiConfig({ ...API_SETTINGS, ...changes })).toThrow(message)
    })

    it('a payment must be valid for its call and another minute and a half when it arrives', () => {
      expect(minimumRemainingSeconds(readApiConfig(API_SETTINGS))).toBe(360)
      expect(minimumRemainingSeconds({ PROVIDER_TIMEOUT_SECONDS: 30.5 })).toBe(121)
    })

    const LONG_CALLS = {
      PROVIDER_TIMEOUT_SECONDS: '600',
      AUTHORIZATION_LIFETIME_SECONDS: '1200',
    }

    it('calls may take longer than five minutes when payments are valid for longer', () => {
      expect(readApiConfig({ ...API_SETTINGS, ...LONG_CALLS })).toMatchObject({ PROVIDER_TIMEOUT_SECONDS: 600 })
      expect(readWorkerConfig({ ...WORKER_SETTINGS, ...LONG_CALLS })).toMatchObject({ PROVIDER_TIMEOUT_SECONDS: 600 })
    })

    it.each([
      ['AUTHORIZATION_LIFETIME_SECONDS', { AUTHORIZATION_LIFETIME_SECONDS: '1073' }, 'at least 1074'],
      ['AUTHORIZATION_LIFETIME_SECONDS', { OUTPUT_TOKENS_PER_SECOND: '64' }, 'at least 1458'],
      ['PROVIDER_TIMEOUT_SECONDS', { PROVIDER_TIMEOUT_SECONDS: '3000000' }, '86400'],
    ])('the worker does not start when %s does not fit the other times, as with %o', (name, changes, message) => {
      expect(() => readWorkerConfig({ ...WORKER_SETTINGS, ...LONG_CALLS, ...changes })).toThrow(name)
      expect(() => readWorkerConfig({ ...WORKER_SETTINGS, ...LONG_CALLS, ...changes })).toThrow(message)
    })

    it.each([
      ['HOLD_SECONDS', readApiConfig, API_SETTINGS, '86400'],
      ['DRAIN_NOTICE_SECONDS', readApiConfig, API_SETTINGS, '86400'],
      ['DRAIN_SECONDS', readApiConfig, API_SETTINGS, '86400'],
      ['DRAIN_SECONDS', readWorkerConfig, WORKER_SETTINGS, '86400'],
      ['LEASE_SECONDS', readWorkerConfig, WORKER_SETTINGS, '86400'],
      ['RPC_TIMEOUT_MS', readApiConfig, API_SETTINGS, '86400000'],
      ['RPC_TIMEOUT_MS', readWorkerConfig, WORKER_SETTINGS, '86400000'],
      ['AUTHORIZATION_LIFETIME_SECONDS', readApiConfig, API_SETTINGS, '172800'],
      ['AUTHORIZATION_LIFETIME_SECONDS', readWorkerConfig, WORKER_SETTINGS, '172800'],
    ])('%s is at most a day or two: a longer timer would end at once', (name, read, settings, longest) => {
      expect(read({ ...settings, [name]: longest })).toHaveProperty(name, Number(longest))
      expect(() => read({ ...settings, [name]: `${longest}0000` })).toThrow(
        new RegExp(`<=${longest}\n  → at ${name}$`, 'm'),
      )
    })

    it('the API starts with a lifetime that is just long enough', () => {
      const { AUTHORIZATION_LIFETIME_SECONDS } = readApiConfig({
        ...API_SETTINGS,
        AUTHORIZATION_LIFETIME_SECONDS: '744',
      })
      expect(AUTHORIZATION_LIFETIME_SECONDS).toBe(744)
    })
  })

  describe('trusted proxies', () => {
    it('are addresses, networks and the names of networks, which Fastify takes as they are read', () => {
      const proxies = readProxies('10.0.0.1, 172.16.0.0/12,192.168.0.0/255.255.0.0, fd00::/8,loopback')
      expect(proxies).toEqual(['10.0.0.1', '172.16.0.0/12', '192.168.0.0/255.255.0.0', 'fd00::/8', 'loopback'])
      expect(() => fastify({ trustProxy: proxies ?? false })).not.toThrow()
    })

    it.each([
      'proxy.example',
      '10.0.0.0/33',
      '10.0.0.0/0',
      '10.0.0.1,',
      'fd00::/129',
      '10.0.0.0/8/8',
      '10.0.0.0/255.0.255.0',
      '10.0.0.0/0.0.0.0',
    ])('are named when %s is among them', (proxies) => {
      expect(() => readProxies(proxies)).toThrow(/TRUSTED_PROXIES|must be addresses/)
    })
  })

  describe('object store settings', () => {
    it('requires exactly one of OBJECT_STORE_DIRECTORY and S3_BUCKET', () => {
      expect(() => readApiConfig(API_WITHOUT_STORE)).toThrow('set either OBJECT_STORE_DIRECTORY or S3_BUCKET')
      expect(() => readApiConfig({ ...API_SETTINGS, S3_BUCKET: 'media' })).toThrow('set only one of')
      expect(readApiConfig({ ...API_WITHOUT_STORE, S3_BUCKET: 'media' }).S3_REGION).toBe('us-east-1')
    })

    it.each([
      ['S3_ACCESS_KEY_ID', { S3_BUCKET: 'media', S3_ACCESS_KEY_ID: 'key' }],
      ['S3_ACCESS_KEY_ID', { S3_BUCKET: 'media', S3_SECRET_ACCESS_KEY: 'key' }],
      ['S3_BUCKET', { OBJECT_STORE_DIRECTORY: '/objects', S3_ENDPOINT: 'http://127.0.0.1:3' }],
      ['S3_ENDPOINT', { S3_BUCKET: 'media', S3_ENDPOINT: 'not a URL' }],
      ['S3_FORCE_PATH_STYLE', { S3_BUCKET: 'media', S3_FORCE_PATH_STYLE: 'perhaps' }],
      ['MEDIA_DELIVERY', { OBJECT_STORE_DIRECTORY: '/objects', MEDIA_DELIVERY: 'redirect' }],
    ])('rejects incomplete object store settings with an error that names %s', (name, changes) => {
      expect(() => readApiConfig({ ...API_WITHOUT_STORE, ...changes })).toThrow(name)
    })
  })

  describe('settings of payers and gas', () => {
    it('known wallets may pay by default, none with `none`, and those of ALLOWED_WALLET_CODE are in lower case', () => {
      const [one, other] = [`0x${'A'.repeat(40)}`, `0x${'b'.repeat(40)}`]
      for (const read of [
        (changes: object) => readApiConfig({ ...API_SETTINGS, ...changes }),
        (changes: object) => readWorkerConfig({ ...WORKER_SETTINGS, ...changes }),
      ]) {
        const allowed = (text: string) => read({ ALLOWED_WALLET_CODE: text }).ALLOWED_WALLET_CODE
        expect(read({}).ALLOWED_WALLET_CODE).toEqual([])
        for (const text of ['', 'default']) expect(allowed(text)).toEqual([])
        expect(allowed('none')).toBeNull()
        for (const text of [`${one},${other}`, `default,${one},${other}`])
          expect(allowed(text)).toEqual([one.toLowerCase(), other])
        for (const text of ['0x12', `${one},`, `${one};${other}`, 'all', `none,${one}`])
          expect(() => allowed(text)).toThrow('ALLOWED_WALLET_CODE')
      }
    })

    it('paid work starts on blocks of at most twenty seconds by default, and of any age with 0', () => {
      for (const read of [readApiConfig, readWorkerConfig]) {
        const settings = read === readApiConfig ? API_SETTINGS : WORKER_SETTINGS
        expect(maximumHeadAgeMs(read(settings))).toBe(20_000)
        expect(maximumHeadAgeMs(read({ ...settings, MAXIMUM_HEAD_AGE_SECONDS: '7.5' }))).toBe(7500)
        expect(maximumHeadAgeMs(read({ ...settings, MAXIMUM_HEAD_AGE_SECONDS: '0' }))).toBe(Number.POSITIVE_INFINITY)
        expect(() => read({ ...settings, MAXIMUM_HEAD_AGE_SECONDS: '-1' })).toThrow('MAXIMUM_HEAD_AGE_SECONDS')
      }
    })

    it('uncharged work counts for an hour', () => {
      const budget = { windowSeconds: 3600, perPayer: 1_000_000n, maximumForgiven: 20_000_000n }
      for (const config of [readApiConfig(API_SETTINGS), readWorkerConfig(WORKER_SETTINGS)])
        expect(unchargedBudget(config)).toEqual(budget)
    })

    it('fees are limited by the price of the native token unless the operator chooses a maximum', () => {
      expect(maximumFeePerGasWei(readWorkerConfig(WORKER_SETTINGS))).toBe(10_309_278n)
      expect(readWorkerConfig({ ...WORKER_SETTINGS, MAXIMUM_FEE_PER_GAS_WEI: '7' }).MAXIMUM_FEE_PER_GAS_WEI).toBe(7n)
      expect(() => readWorkerConfig({ ...WORKER_SETTINGS, MAXIMUM_FEE_PER_GAS_WEI: '0' })).toThrow(
        'MAXIMUM_FEE_PER_GAS',
      )
      expect(() => readWorkerConfig({ ...WORKER_SETTINGS, NATIVE_TOKEN_USD: '0' })).toThrow('NATIVE_TOKEN_USD')
    })
  })
})

describe('settings of the facilitator', () => {
  const SHARED_SETTINGS = {
    DATABASE_URL: 'postgres://farebox@127.0.0.1/farebox',
    OBJECT_STORE_DIRECTORY: '/objects',
    RPC_URL: 'http://127.0.0.1:8545',
    PUBLIC_BASE_URL: 'http://127.0.0.1:8402',
    DEPLOYMENTS_FILE: '/deployments.json',
  }
  const API_SETTINGS = {
    ...SHARED_SETTINGS,
    PAY_TO: `0x${'1'.repeat(40)}`,
    CHALLENGE_SECRET: 'c'.repeat(32),
    RECEIPT_SIGNING_KEY: `k1:${'ab'.repeat(32)}`,
    RECEIPT_SECRETS: `k1:${'r'.repeat(32)}`,
    CONTACT_EMAIL: 'operator@farebox.example',
  }
  const WORKER_SETTINGS = { ...SHARED_SETTINGS, RECEIPT_SECRET_ID: 'k1' }

  it('the API accepts either facilitator addresses or a remote facilitator', () => {
    expect(readApiConfig({ ...API_SETTINGS, ...FACILITATOR_ADDRESSES_SETTING }).FACILITATOR_URL).toBeUndefined()
    expect(readApiConfig({ ...API_SETTINGS, ...REMOTE_FACILITATOR })).toMatchObject(REMOTE_FACILITATOR)
  })

  it('the worker accepts either settlement keys or a remote facilitator', () => {
    expect(readWorkerConfig({ ...WORKER_SETTINGS, ...SETTLEMENT_KEYS_SETTING }).FACILITATOR_URL).toBeUndefined()
    expect(readWorkerConfig({ ...WORKER_SETTINGS, ...REMOTE_FACILITATOR })).toMatchObject(REMOTE_FACILITATOR)
  })

  it('API and worker reject neither and both, with an error that names the settings', () => {
    for (const choice of [{}, { ...FACILITATOR_ADDRESSES_SETTING, ...REMOTE_FACILITATOR }])
      expect(() => readApiConfig({ ...API_SETTINGS, ...choice })).toThrow(
        /exactly one of FACILITATOR_ADDRESSES.*FACILITATOR_URL/,
      )
    for (const choice of [{}, { ...SETTLEMENT_KEYS_SETTING, ...REMOTE_FACILITATOR }])
      expect(() => readWorkerConfig({ ...WORKER_SETTINGS, ...choice })).toThrow(
        /exactly one of SETTLEMENT_PRIVATE_KEYS.*FACILITATOR_URL/,
      )
  })

  it('the minimum charge follows the gas only where our own keys pay it', () => {
    const following = { MINIMUM_CHARGE_FOLLOWS_GAS: 'true' }
    const own = { ...API_SETTINGS, ...FACILITATOR_ADDRESSES_SETTING }
    expect(readApiConfig(own).MINIMUM_CHARGE_FOLLOWS_GAS).toBe(false)
    expect(readApiConfig({ ...own, ...following }).MINIMUM_CHARGE_FOLLOWS_GAS).toBe(true)
    expect(() => readApiConfig({ ...API_SETTINGS, ...REMOTE_FACILITATOR, ...following })).toThrow(
      /a remote facilitator pays the gas[\s\S]*MINIMUM_CHARGE_FOLLOWS_GAS/,
    )
  })

  it('the API accepts a settlement contract next to its keys, in lower case, and not with a remote facilitator', () => {
    const contract = { SETTLEMENT_CONTRACT: `0x${'Cc'.repeat(20)}` }
    const settings = { ...API_SETTINGS, ...FACILITATOR_ADDRESSES_SETTING, ...contract }
    expect(readApiConfig(settings).SETTLEMENT_CONTRACT).toBe(`0x${'cc'.repeat(20)}`)
    expect(readApiConfig({ ...settings, SETTLEMENT_CONTRACT: 'none' }).SETTLEMENT_CONTRACT).toBeUndefined()
    expect(() => readApiConfig({ ...API_SETTINGS, ...REMOTE_FACILITATOR, ...contract })).toThrow(
      /cannot be set with FACILITATOR_URL[\s\S]*SETTLEMENT_CONTRACT/,
    )
    for (const wrong of ['', '0x1', `0x${'0'.repeat(40)}`, `0x${'0'.repeat(39)}1`])
      expect(() => readApiConfig({ ...settings, SETTLEMENT_CONTRACT: wrong })).toThrow(/SETTLEMENT_CONTRACT/)
  })
})

describe('the server of the database', () => {
  it.each([
    ['postgres://127.0.0.1:5432/farebox', true],
    ['postgres://user@[::1]/farebox', true],
    ['postgres://postgres/farebox', true],
    ['postgresql:///farebox?host=/var/run/postgresql', true],
    ['postgres://user@%2Fvar%2Frun%2Fpostgresql/farebox', true],
    ['postgres://db.example/farebox', false],
    ['postgresql:///farebox?host=db.example', false],
  ])('%s is of this machine or network: %s', (connectionString, isOwn) => {
    expect(isOwnServer(connectionString)).toBe(isOwn)
  })
})
