import { describe, expect, it } from 'vitest'
import { readConfig as readApiConfig } from '../../../api/config.ts'
import { readConfig as readWorkerConfig } from '../../../workers/config.ts'

const shared = {
  DATABASE_URL: 'postgres://farebox@127.0.0.1/farebox',
  OBJECT_STORE_DIRECTORY: '/objects',
  RPC_URL: 'http://127.0.0.1:8545',
  PUBLIC_BASE_URL: 'http://127.0.0.1:8402',
  DEPLOYMENTS_FILE: '/deployments.json',
}
const api = {
  ...shared,
  PAY_TO: `0x${'1'.repeat(40)}`,
  CHALLENGE_SECRET: 'c'.repeat(32),
  RECEIPT_SIGNING_KEY: `k1:${'ab'.repeat(32)}`,
  RECEIPT_SECRETS: `k1:${'r'.repeat(32)}`,
  CONTACT_EMAIL: 'operator@farebox.example',
}
const worker = { ...shared, RECEIPT_SECRET_ID: 'k1' }
const remote = { FACILITATOR_URL: 'https://facilitator.example', FACILITATOR_API_KEY: 'key' }
const addresses = { FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}` }
const keys = { SETTLEMENT_PRIVATE_KEYS: `0x${'3'.repeat(64)}` }

describe('one way of settling is configured:', () => {
  it('addresses or a remote facilitator at the API', () => {
    expect(readApiConfig({ ...api, ...addresses }).FACILITATOR_URL).toBeUndefined()
    expect(readApiConfig({ ...api, ...remote })).toMatchObject(remote)
  })

  it('keys or a remote facilitator at the worker', () => {
    expect(readWorkerConfig({ ...worker, ...keys }).FACILITATOR_URL).toBeUndefined()
    expect(readWorkerConfig({ ...worker, ...remote })).toMatchObject(remote)
  })

  it('neither or both is an error that names the settings', () => {
    for (const choice of [{}, { ...addresses, ...remote }])
      expect(() => readApiConfig({ ...api, ...choice })).toThrow(
        /exactly one of FACILITATOR_ADDRESSES.*FACILITATOR_URL/,
      )
    for (const choice of [{}, { ...keys, ...remote }])
      expect(() => readWorkerConfig({ ...worker, ...choice })).toThrow(
        /exactly one of SETTLEMENT_PRIVATE_KEYS.*FACILITATOR_URL/,
      )
  })
})
