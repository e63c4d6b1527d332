import { expect, test } from 'vitest'
import { OTHER_FIELDS, PROBES, type TabledOperation } from '../../support/vendors/options/probes.ts'
import { sdkFields } from '../support/sdk-fields.ts'

test.each(Object.keys(PROBES) as TabledOperation[])(
  '%s: every field of the newest SDK is tried, and no other',
  (operation) => {
    const expected = [...sdkFields(operation), ...OTHER_FIELDS[operation]].toSorted()
    expect(Object.keys(PROBES[operation]).toSorted()).toEqual(expected)
    expect(expected.length).toBeGreaterThan(6)
  },
)
