/** Whether a key belongs to the element that has the focus, such as a field of text or an open dialog. */
export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof Element && target.closest('input:not([type=range]), select, textarea, dialog') !== null
  )
}
