/** The store's error messages: the file, the failure and the remedy, but no path, because clients read them. */
import { expect, test } from 'vitest'
import {
  damagedSegment,
  fencedError,
  missingFiles,
  readError,
  systemError,
  writeError,
} from '../../src/adapters/level/errors.js'
import { lostEvent } from '../../src/adapters/level/log/event-body.js'

const systemFailure = (code: string): Error => Object.assign(new Error(`${code}: /secret/path`), { code })

test.each([
  [
    writeError(systemFailure('EIO'), 'unknown'),
    'STORE_FAILED',
    /\(EIO\).* may or may not be stored\. Fix the cause/,
  ],
  [writeError(systemFailure('ENOSPC'), 'not-applied'), 'STORE_FULL', /full.* is not stored\. Free space/],
  [
    fencedError(systemFailure('EIO')),
    'STORE_FAILED',
    /not stored: an earlier write failed \(EIO\)\. Fix the cause/,
  ],
  [readError(systemFailure('EIO')), 'DATA_LOSS', /\(EIO\)\. Restore a backup .*"forkspace repair"/],
  [readError(systemFailure('EMFILE')), 'STORE_FAILED', /could not be read \(EMFILE\)\. Try again/],
  [
    systemError(systemFailure('EACCES'), 'it failed'),
    'PERMISSION_DENIED',
    /\(EACCES\)\. Give this process access/,
  ],
  [
    systemError(
      Object.assign(systemFailure('EACCES'), { path: '/secret/store/segments/00000001.seg' }),
      'it failed',
    ),
    'PERMISSION_DENIED',
    /\(EACCES\)\. Give this process access to the directory and to segments\/00000001\.seg$/,
  ],
  [
    systemError(new Error('IO error: /secret/store/index/LOCK: Permission denied'), 'it failed'),
    'PERMISSION_DENIED',
    /access to the directory and to index\/LOCK$/,
  ],
  [
    systemError(Object.assign(systemFailure('EACCES'), { path: '/secret/store' }), 'it failed'),
    'PERMISSION_DENIED',
    /access to the directory$/,
  ],
  [
    systemError(new Error('IO error: /secret/store/index/LOCK: Read-only file system'), 'it failed'),
    'PERMISSION_DENIED',
    /: its file system is read-only\. Make it writable, or open a copy/,
  ],
  [
    systemError(systemFailure('EROFS'), 'it failed'),
    'PERMISSION_DENIED',
    /\(EROFS\): its file system is read-only/,
  ],
  [systemError(systemFailure('ENOSPC'), 'it failed'), 'STORE_FULL', /\(ENOSPC\)\. Free space/],
  [
    damagedSegment('00000001.seg', 70),
    'DATA_LOSS',
    /^segments\/00000001\.seg is damaged at byte 70\. Restore/,
  ],
  [
    missingFiles(['segments/manifest']),
    'DATA_LOSS',
    /lacks segments\/manifest\. Put it back.*"forkspace repair"/,
  ],
  [lostEvent('s', 3), 'DATA_LOSS', /^event 3 of session s is missing\. Restore/],
])('%s includes a remedy', (error, reason, message) => {
  expect(error.reason).toBe(reason)
  expect(error.message).toMatch(message)
  expect(error.message).not.toContain('/secret')
})
