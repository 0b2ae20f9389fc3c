import { describe, expect, test } from 'vitest'
import { isUnsafeWindowsName } from '../../src/engine/base/windows-names.js'
import { nameRule } from '../../src/engine/services/checkouts/checkout-name-rules.js'
import { reasonOf } from '../support/level-world.js'

const unsafe = ['..\\x', 'a\\b', '\\', 'C:x', 'C:', 'a:b', 'a::$DATA', 'a<b', 'a>b', 'a"b', 'a|b', 'a?', '*']
  .concat(['a\u0000', 'a\u0001b', '\u001f', 'a.', 'a ', ' ', '...', '. .'])
  .concat(['con', 'CON', 'Con.txt', 'con .txt', 'prn', 'aux.h', 'NUL', 'nul.tar.gz', 'conin$', 'CONOUT$.x'])
  .concat(['com0', 'COM1', 'com9.log', 'lpt0', 'LPT9', 'com\u00b9', 'lpt\u00b2.x', 'LPT\u00b3'])

const safe = [
  'a',
  'a b',
  '.a',
  '..a',
  'a..b',
  'console',
  'con1',
  'xcon',
  'com',
  'com10',
  'comx',
  'lpt',
  'nul1',
].concat(['auxiliary', 'prn-x', 'conin', 'é', '😀', 'a\u0020b', '.con', '-', '~', 'a;b', "a'b", '\u007f'])

describe('a name on Windows', () => {
  test.each(unsafe)('%j is unsafe', (name) => expect(isUnsafeWindowsName(name)).toBe(true))
  test.each(safe)('%j is safe', (name) => expect(isUnsafeWindowsName(name)).toBe(false))
})

describe('the name rule of a checkout', () => {
  const refuses = (platform: string, allowGitNames: boolean, path: string): string | undefined => {
    try {
      nameRule({ platform, allowGitNames })(path, false)
      return undefined
    } catch (error) {
      return reasonOf(error)
    }
  }

  test.each(['/..\\x', '/con/a', '/a/C:x', '/a/con', '/a /b'])('rejects %j only on Windows', (path) => {
    for (const allowGitNames of [false, true]) {
      expect(refuses('win32', allowGitNames, path)).toBe('UNSAFE_PATH')
      expect(refuses('linux', allowGitNames, path)).toBeUndefined()
    }
  })

  test('rejects git names on every system unless they are allowed', () => {
    for (const platform of ['win32', 'linux', 'darwin']) {
      expect(refuses(platform, false, '/a/.git/config')).toBe('UNSAFE_PATH')
      expect(refuses(platform, true, '/a/.git/config')).toBeUndefined()
      expect(refuses(platform, false, '/a/b.txt')).toBeUndefined()
    }
  })
})
