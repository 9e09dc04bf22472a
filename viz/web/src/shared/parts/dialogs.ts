/** Whether a dialog is before the page: keys are its own then. The document knows at once; the event that one has closed comes later. */
export const isDialogOpen = (): boolean => document.querySelector('dialog[open]') !== null;
