/** Whether a dialog is open, which then takes all keys. The document knows it at once; the closing event comes later. */
export const isDialogOpen = (): boolean => document.querySelector('dialog[open]') !== null;
