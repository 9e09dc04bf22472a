/** How much a value is of the largest one: what is above 0 can be seen. */
export function Track({ share }: { share: number }) {
  return (
    <span class="track">
      <span class="track-fill" style={{ width: `${share > 0 ? Math.max(1, share * 100) : 0}%` }} />
    </span>
  );
}
