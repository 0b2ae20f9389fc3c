import type { Command } from 'commander'
import { UsageError } from './failure.js'

/** Returns a script with which a shell completes commands and options, and completes other words as files. */
export function completionScript(program: Command, shell: string): string {
  if (shell !== 'bash' && shell !== 'zsh')
    throw new UsageError(`the shell must be bash or zsh, but got '${shell}'`)
  const cases = [...wordsOf(program, '')].map(
    ([path, words]) => `    '${path}') words='${words.join(' ')}' ;;`,
  )
  const script = `_forkspace() {
  local path='' word words='' at
  for ((at = 1; at < COMP_CWORD; at++)); do
    word="\${COMP_WORDS[at]}"
    case "$path $word" in ${groupsOf(program)}) path="\${path:+$path }$word" ;; esac
  done
  case "$path" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _forkspace forkspace
`
  return shell === 'bash' ? script : `autoload -U +X bashcompinit && bashcompinit\n${script}`
}

function* wordsOf(command: Command, path: string): Generator<readonly [string, string[]]> {
  const options = command.options.flatMap(({ long }) => (long === undefined ? [] : [long]))
  yield [path, [...command.commands.map((sub) => sub.name()), ...options, '--help']]
  for (const sub of command.commands) yield* wordsOf(sub, path === '' ? sub.name() : `${path} ${sub.name()}`)
}

/** Returns patterns that match a command together with the path of its parent, such as `source add`. */
function groupsOf(program: Command): string {
  const patterns: string[] = []
  const visit = (command: Command, path: string): void => {
    for (const sub of command.commands) {
      patterns.push(`'${path} ${sub.name()}'`)
      visit(sub, path === '' ? sub.name() : `${path} ${sub.name()}`)
    }
  }
  visit(program, '')
  return patterns.join(' | ')
}
