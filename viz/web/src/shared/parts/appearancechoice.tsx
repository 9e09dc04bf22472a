import { appearance, APPEARANCES, choose, type Appearance } from '../session/theme';

/** Choice of the appearance: as the system says, light, dark, or for a projector. */
export function AppearanceChoice() {
  return (
    <select
      aria-label="Appearance"
      title="Light, dark, or for a projector"
      value={appearance.value}
      onChange={(event) => choose(event.currentTarget.value as Appearance)}
    >
      {APPEARANCES.map((one) => (
        <option key={one} value={one}>
          {one}
        </option>
      ))}
    </select>
  );
}
