import { describe, expect, it } from 'vitest'
import { readConfig as readApiConfig } from '../../../api/config.ts'
import { readConfig as readWorkerConfig } from '../../../workers/config.ts'

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
const REMOTE_FACILITATOR = { FACILITATOR_URL: 'https://facilitator.example', FACILITATOR_API_KEY: 'key' }
const FACILITATOR_ADDRESSES_SETTING = { FACILITATOR_ADDRESSES: `0x${'2'.repeat(40)}` }
const SETTLEMENT_KEYS_SETTING = { SETTLEMENT_PRIVATE_KEYS: `0x${'3'.repeat(64)}` }

describe('facilitator settings', () => {
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

  it('the API accepts a settlement contract next to its keys, in lower case, and not with a remote facilitator', () => {
    const contract = { SETTLEMENT_CONTRACT: `0x${'Cc'.repeat(20)}` }
    const settings = { ...API_SETTINGS, ...FACILITATOR_ADDRESSES_SETTING, ...contract }
    expect(readApiConfig(settings).SETTLEMENT_CONTRACT).toBe(`0x${'cc'.repeat(20)}`)
    expect(() => readApiConfig({ ...API_SETTINGS, ...REMOTE_FACILITATOR, ...contract })).toThrow(
      /cannot be set with FACILITATOR_URL[\s\S]*SETTLEMENT_CONTRACT/,
    )
    for (const wrong of ['', '0x1', `0x${'0'.repeat(40)}`, `0x${'0'.repeat(39)}1`])
      expect(() => readApiConfig({ ...settings, SETTLEMENT_CONTRACT: wrong })).toThrow(/SETTLEMENT_CONTRACT/)
  })
})
